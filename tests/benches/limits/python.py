"""What a daemon in Python would do, timed by Python itself: for each line with a number, does it so often, and answers with
the seconds that this thread has run meanwhile. Of `our-turn` it is the time on the wall: a lock that waits for something
does not run.

`python.py cycle DIR`: a lock of the filelock library around a cycle, without waiting. `python.py check DIR`: reads the lock
file and asks for its process. `our-cycle`, `our-check` and `our-lock` are what the package beadlock has for that, and
`our-turn` is a claim of a `lock:PATH` and its release."""

import json
import os
import socket
import sys
import time

import filelock

what, directory = sys.argv[1:]
if what.startswith("our-"):
    import beadlock

    our_cycle = beadlock.Cycle(directory)
    our_lock = beadlock.FileLock(os.path.join(directory, "daemon"), wait=0)
    our_turn = beadlock.Lock(f"lock:{directory}/turn.lock", wait=0, durable=False)
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


def ours_around_a_cycle():
    our_cycle.enter()
    our_cycle.leave()


def ours_on_a_file():
    our_lock.acquire()
    our_lock.release()


def our_turn_at_it():
    our_turn.acquire()
    our_turn.release()


def our_check():
    assert beadlock.should_skip_database(directory)


once = {
    "cycle": cycle,
    "check": check,
    "our-cycle": ours_around_a_cycle,
    "our-check": our_check,
    "our-lock": ours_on_a_file,
    "our-turn": our_turn_at_it,
}[what]
clock = time.perf_counter if what == "our-turn" else time.thread_time
for line in sys.stdin:
    begun = clock()
    for _ in range(int(line)):
        once()
    print(clock() - begun, flush=True)
