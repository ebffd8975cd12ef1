#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sink.py MILLISECONDS: as much of an S3 server as an upload asks for. It throws all bytes away, a thread for each connection, and
answers each request so many milliseconds after its last byte, as a store that is some way off. Prints its port, and serves until
it is killed."""
import http.client
import re
import socket
import sys
import threading
import time

XML = {
    "GET": "<ListMultipartUploadsResult></ListMultipartUploadsResult>",
    "POST": "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>",
    "PUT": "",
}


def throw_away(connection, reader, n):
    """What READER has read ahead, then the rest of N bytes past it."""
    n -= len(reader.read1(min(n, len(reader.peek()))) if n else b"")
    room = bytearray(1 << 20)
    while n > 0:
        got = connection.recv_into(room, min(n, len(room)))
        if got == 0:
            raise OSError("it broke")
        n -= got


def serve(connection, delay):
    try:
        with connection, connection.makefile("rb", buffering=8192) as reader:
            while line := reader.readline().decode():
                headers = http.client.parse_headers(reader)
                if headers.get("Expect"):
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                throw_away(connection, reader, int(headers.get("Content-Length", 0)))
                time.sleep(delay)
                body = XML[line.split()[0]]
                if re.match("POST .*uploadId=", line):
                    body = "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"
                connection.sendall(("HTTP/1.1 200 OK\r\nETag: \"0\"\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
    except OSError:
        pass


def main(milliseconds):
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=serve, args=(server.accept()[0], int(milliseconds) / 1000), daemon=True).start()


main(*sys.argv[1:])
