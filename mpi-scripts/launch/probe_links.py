# SPDX-License-Identifier: Apache-2.0
"""Measures the speed of a host and of its link to the next one. It is the first part of what probe.py is sent as."""
import select
import socket
import threading
import time


def first_bytes(connection, number):
    try:
        return connection.recv(number)
    except OSError:  # it was reset
        return b""


def accept(listener, token, seconds):
    """The connection that begins with the token. Those of strangers wait beside it; of many, the oldest are closed."""
    waiting = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for ready in select.select([listener, *waiting], [], [], max(0.0, end - time.monotonic()))[0]:
            if ready is listener:
                waiting.append(listener.accept()[0])
                if len(waiting) > 200:
                    waiting.pop(0).close()
            elif ready in waiting:
                waiting.remove(ready)
                if first_bytes(ready, len(token)) == token:  # it is sent at once, and so short that it comes whole
                    return ready
                ready.close()
    raise OSError("timed out")


def receive(listener, token, results):
    """Echoes 8 bytes, one at a time, of the host that knows the token, and counts what else it sends."""
    try:
        connection = accept(listener, token, 4)
        connection.settimeout(3)
        for _ in range(8):
            connection.sendall(connection.recv(1))
        count = 0
        for block in iter(lambda: connection.recv(1 << 18), b""):
            count += len(block)
        connection.sendall(b"%d\n" % count)
        connection.close()
    except OSError as error:
        results["receive_error"] = str(error)


def send(address, port, token, seconds):
    try:
        with socket.create_connection((address, port), timeout=2) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # so that little is under way at the end
            connection.sendall(token)
            trips = []
            for _ in range(8):
                begin = time.monotonic()
                connection.sendall(b"x")
                connection.recv(1)
                trips.append(time.monotonic() - begin)
            begin = time.monotonic()
            block = bytes(1 << 18)
            while time.monotonic() - begin < seconds:
                connection.sendall(block)
            connection.shutdown(socket.SHUT_WR)
            count = int(connection.makefile().readline() or 0)
            return {"bytes_per_second": count / (time.monotonic() - begin), "round_trip": min(trips)}
    except OSError as error:
        return {"error": error.strerror or str(error) or "timed out"}


def speed():
    """Turns of a loop in a second: the best of some tries, so that others on the same cores matter less."""
    best = 1e9
    for _ in range(6):
        begin = time.perf_counter()
        total = 0
        for i in range(20000):
            total += i * i
        best = min(best, time.perf_counter() - begin)
    return 20000 / best


def measure(plan, listener, token, seconds):
    results = {}
    receiver = threading.Thread(target=receive, args=(listener, token, results), daemon=True)
    receiver.start()
    results["routes"] = {}
    for host, address in plan["peers"].items():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            try:
                asker.connect((address, 9))
            except OSError as error:
                results["routes"][host] = error.strerror
    if plan.get("to"):
        results["link"] = send(plan["to"]["address"], plan["to"]["port"], token, seconds)
        receiver.join(1)
    results["speed"] = speed()
    return results
