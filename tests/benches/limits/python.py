"""What a daemon in Python would do, timed by Python itself: for each line with a number, does it so often, and answers with
the seconds that this thread has run meanwhile.

`python.py cycle DIR`: a lock of the filelock library around a cycle, without waiting. `python.py check DIR`: reads the lock
file and asks for its process."""

import json
import os
import socket
import sys
import time

import filelock

what, directory = sys.argv[1:]
lock = filelock.FileLock(os.path.join(directory, "daemon.filelock"))
path = os.path.join(directory, ".exclusive-lock")


def cycle():
    lock.acquire(timeout=0)
    lock.release()


def check():
    with open(path) as file:
        record = json.load(file)
    if record["hostname"] == socket.gethostname():
        os.kill(record["pid"], 0)


once = {"cycle": cycle, "check": check}[what]
for line in sys.stdin:
    begun = time.thread_time()
    for _ in range(int(line)):
        once()
    print(time.thread_time() - begun, flush=True)
