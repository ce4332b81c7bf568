"""Recorded programs: known databases and runtimes that sync, as workloads of the recorder's figures.

Each program makes a number of durable writes, one after another, and then ends:

    go       4 goroutines on 4 files: a write of 64 bytes, and its fsync
    sqlite   sqlite3: a transaction with a rollback journal, which it creates, syncs and removes
    redis    redis-server with `appendfsync always`: a SET by a client in Python, which is recorded too
    jvm      a write of 64 bytes to a FileChannel, and its force(false)
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_GO = r"""
package main

import ("os"; "strconv"; "sync")

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			file, err := os.Create("f" + strconv.Itoa(worker))
			if err != nil { panic(err) }
			for number := worker; number < count; number += 4 {
				if _, err := file.Write(make([]byte, 64)); err != nil { panic(err) }
				if err := file.Sync(); err != nil { panic(err) }
			}
		}()
	}
	all.Wait()
}
"""
_JAVA = r"""
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

public class Syncs {
    public static void main(String[] arguments) throws Exception {
        ByteBuffer data = ByteBuffer.allocateDirect(64);
        try (FileChannel file = FileChannel.open(Path.of("f"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            for (int number = Integer.parseInt(arguments[0]); number > 0; number--) {
                file.write(data.clear());
                file.force(false);
            }
        }
    }
}
"""
_REDIS = r"""
import socket, subprocess, sys, time
server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "yes",
    "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"])
client = socket.socket(socket.AF_UNIX)
while client.connect_ex("socket"):
    time.sleep(0.001)
for number in range(int(sys.argv[1])):
    client.sendall(b"SET key%d %064d\r\n" % (number, number))
    assert client.recv(100) == b"+OK\r\n"
client.sendall(b"SHUTDOWN\r\n")
server.wait()
"""


def _program_in_go(directory: str) -> str:
    source, made = Path(directory, "syncs.go"), Path(directory, "syncs")
    source.write_text(_GO)
    subprocess.run(["go", "build", "-o", made, source], check=True, capture_output=True)
    return str(made)


def _class_in_java(directory: str) -> str:
    source = Path(directory, "Syncs.java")
    source.write_text(_JAVA)
    subprocess.run(["javac", source], check=True, capture_output=True)
    return directory


def _sqlite_command(directory: str, count: int) -> list[str]:
    insert = "INSERT INTO rows VALUES (zeroblob(64));\n"
    script = Path(directory, f"{count}.sql")
    script.write_text("CREATE TABLE rows (value);\n" + insert * count)
    return ["/bin/sh", "-c", 'exec sqlite3 f ".read $1/$2.sql"', "sh", directory, str(count)]


_COMMANDS: dict[str, Callable[[str, int], list[str]]] = {
    "go": lambda directory, count: [_program_in_go(directory), str(count)],
    "sqlite": _sqlite_command,
    "redis": lambda directory, count: [sys.executable, "-I", "-S", "-c", _REDIS, str(count)],
    "jvm": lambda directory, count: ["java", "-cp", _class_in_java(directory), "Syncs", str(count)],
}
_TOOLS = {"go": "go", "sqlite": "sqlite3", "redis": "redis-server", "jvm": "javac"}
PROGRAMS = tuple(_COMMANDS)


def missing_tool(name: str) -> str:
    """Return the command that a program lacks; empty if it can run."""
    return "" if shutil.which(_TOOLS[name]) else _TOOLS[name]


def command_of(name: str, directory: str, count: int) -> list[str]:
    """Return the command line of a program. Its last word is the number of durable writes.

    directory: for built files.
    """
    return _COMMANDS[name](directory, count)
