package bwrap

import (
	"fmt"
	"os"
)

// etcNames lists what of /etc programs need. It is a list of what is let in: the
// directory also holds password hashes, keys and tokens of the machine, and the
// process inside is their owner when the machine's user is root.
func etcNames() []string {
	return []string{
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ca-certificates", "/etc/ca-certificates.conf",
		"/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies",
		"/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/locale.conf", "/etc/os-release", "/etc/debian_version",
		"/etc/mime.types", "/etc/magic", "/etc/protocols", "/etc/services", "/etc/shells",
		"/etc/bash.bashrc", "/etc/inputrc", "/etc/terminfo", "/etc/fonts", "/etc/xml", "/etc/sgml", "/etc/vim",
		"/etc/perl", "/etc/python3", "/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/java-25-openjdk",
	}
}

type file struct{ path, content string }

// copyMost is the size up to which a file of /etc is copied.
const copyMost = 128 << 10

// etc says what of /etc is copied into the sandbox's own root, which is read-only
// in the end, and what is bound there. A mount costs a good part of a millisecond,
// and most of these are small files.
func etc() (copies []file, binds []string) {
	for _, name := range etcNames() {
		if fi, err := os.Stat(name); err != nil {
			continue
		} else if fi.Mode().IsRegular() && fi.Size() <= copyMost {
			if b, err := os.ReadFile(name); err == nil {
				copies = append(copies, file{name, string(b)})
				continue
			}
		}
		binds = append(binds, name)
	}
	return copies, binds
}

// syntheticEtc are files that say who the process is and nothing of the machine.
func syntheticEtc(euid int) []file {
	id := euid
	if id == 0 {
		id = agentID
	}
	return []file{
		{"/etc/passwd", fmt.Sprintf("agent:x:%d:%d:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", id, id)},
		{"/etc/group", fmt.Sprintf("agent:x:%d:\nnogroup:x:65534:\n", id)},
		{"/etc/hosts", "127.0.0.1 localhost lazy\n::1 localhost\n"},
		{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
	}
}
