"""Serve moto on a free port of the loopback interface.

listen() must come before moto is imported: calls that moto makes to itself go to
MOTO_PORT. serve() prints the port once requests can come, and ends the process
when standard input closes, so that no server outlives the test that started it.
"""

import logging
import os
import socket
import sys
import threading


def listen():
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    os.environ["MOTO_PORT"] = str(sock.getsockname()[1])
    return sock


def leave_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


def serve(sock, threaded):
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = sock.getsockname()[1]
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", port, app, threaded=threaded, fd=sock.fileno())
    threading.Thread(target=leave_with_parent, daemon=True).start()
    print(port, flush=True)
    server.serve_forever()
