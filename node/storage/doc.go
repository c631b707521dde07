// Package storage is a broker's disk in real files, in Kafka's layout, which can lose power on demand.
package storage
