"""Stands in for `python`: has the fork server run the command and ends as the command ends.

The server's class writes this file with a first line that names the interpreter. Only modules that load within
milliseconds are imported.
"""

import array
import marshal
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main():
    server = socket.socket(socket.AF_UNIX)
    server.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "socket"))
    ignored = [number for number in FORWARDED if signal.getsignal(number) is signal.SIG_IGN]
    descriptors = [number for number in map(int, os.listdir("/proc/self/fd"))
                   if number != server.fileno() and is_open(number)]
    umask = os.umask(0)
    os.umask(umask)
    request = marshal.dumps({
        "argv": sys.argv, "environment": dict(os.environ), "folder": os.getcwd(), "descriptors": descriptors,
        "umask": umask, "niceness": os.nice(0), "ignored": [int(number) for number in ignored], "pid": os.getpid(),
    })
    waiting, child = [], []

    def forward(number, _):
        if child:
            os.kill(child[0], number)
        else:
            waiting.append(number)

    for number in FORWARDED:
        if number not in ignored:
            signal.signal(number, forward)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    server.sendmsg([len(request).to_bytes(4, "big")], rights)
    server.sendall(request)
    cold, pid = marshal.loads(received(server))
    if cold:
        for number in FORWARDED:
            if number not in ignored:
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(cold[0], cold)
    # Whoever reads from the command must see its end even if the command closes its output early.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in descriptors:
        if number > 2:
            os.close(number)
        else:
            os.dup2(nothing, number)
    child.append(pid)
    for number in waiting:
        os.kill(pid, number)
    status = marshal.loads(received(server))
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False  # it listed the folder
    return True


def received(server):
    size = int.from_bytes(exactly(server, 4), "big")
    return exactly(server, size)


def exactly(server, size):
    data = b""
    while len(data) < size:
        part = server.recv(size - len(data))
        if not part:
            sys.exit("The fork server has ended.")
        data += part
    return data


main()
