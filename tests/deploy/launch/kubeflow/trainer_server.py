#!/usr/bin/env python3
"""The server of Kubeflow Trainer, for tests: trainer_server.py CERTIFICATE KEY

Listens with TLS on a free port of 127.0.0.1, which it prints to stderr. Prints
each POST as a line of JSON to stdout. The first part of the path says what the
answer is.
"""

import http.server
import json
import ssl
import sys
import threading

ANSWERS = {"ok": (200, b'{"trainerStatus": {}}'), "empty": (200, b""),
           "accepted": (202, b"{}"), "nothing": (204, None),
           "forbidden": (403, b"no"), "broken": (500, b"no"),
           "moved": (302, b"")}


class Handler(http.server.BaseHTTPRequestHandler):

    def do_POST(self):  # pylint: disable=invalid-name
        length = int(self.headers["Content-Length"])
        print(json.dumps({
            "path": self.path,
            "token": self.headers.get("Authorization"),
            "type": self.headers.get("Content-Type"),
            "body": self.rfile.read(length).decode()}), flush=True)
        how = self.path.split("/")[1]
        if how == "hang":
            threading.Event().wait()
        code, body = ANSWERS[how]
        self.send_response(code)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"port {server.server_address[1]}.", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
