// Package image makes the container image of a node out of the tidemark executable alone.
//
// Nothing can be assumed to be pullable on the machine of a test, so the image is FROM scratch: one layer with one file,
// /tidemark, which is also the entry point. [Ensure] makes it, and makes it only once: the tag is the hash of everything
// that is in it, so an image that is there is the right one, and a changed executable gets a new image.
//
// The image is handed to the engine as an archive, in the format of docker save and docker load. Of the three ways to
// make one (measured with engine 20.10 and an executable of 25 MB) it is the fastest and the only reproducible one:
//
//	load of an archive    0.19 s    same input, same image id: two at once do not get into each other's way
//	import of a layer     0.26 s    the id contains the time; the slower of two at once stays behind without a name
//	build                 1.3 s     starts a container for each line of the Dockerfile
//
// The executable must be static; tidemark/cluster/binary finds one.
package image
