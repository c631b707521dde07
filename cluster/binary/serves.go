package binary

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// machines are the ELF words for Go's architectures. An architecture that is not here is not compared.
var machines = map[string]elf.Machine{
	"386":     elf.EM_386,
	"amd64":   elf.EM_X86_64,
	"arm":     elf.EM_ARM,
	"arm64":   elf.EM_AARCH64,
	"loong64": elf.EM_LOONGARCH,
	"ppc64le": elf.EM_PPC64,
	"riscv64": elf.EM_RISCV,
	"s390x":   elf.EM_S390,
}

// serves says why the file at path cannot be what the nodes run; nil means that it can.
func (o Options) serves(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	if o.Static {
		// The execute bit does not matter here: the image gives it.
		return static(path, o.Arch)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not executable (mode %v)", path, info.Mode().Perm())
	}
	return nil
}

// static says why the executable at path would not run alone in an image for arch.
func static(path, arch string) error {
	f, err := elf.Open(path)
	if format := (*elf.FormatError)(nil); errors.As(err, &format) {
		return fmt.Errorf("%s is not an ELF executable, which an image needs", path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if want, known := machines[arch]; known && f.Machine != want {
		return fmt.Errorf("%s is for %v, and the image is for %s", path, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a dynamic loader, which an image does not have", path)
		}
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil // Not made by Go: nothing more is known, and a static executable runs whatever made it.
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return fmt.Errorf("%s is built with the race detector, which needs the C library and makes nodes too slow", path)
		}
	}
	return nil
}
