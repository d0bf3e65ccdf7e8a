"""Run a campaign again and again in child processes and kill each at a random moment.

python kill_campaign.py STORE LOG KILLS SEED: one JSON line with the moment of each kill. The
children are forked from here, before JAX has started, so that each takes milliseconds to start.
"""

import json
import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from owlfi.campaign import Campaign


def drive(path):
    with ThreadPoolExecutor(2) as executor:
        Campaign.open(path).run(executor=executor, check=False)
    os._exit(0)


def killed_after(path, log, seconds, running):
    """Killed so long after its start or, if `running`, after its first run."""
    before = size(log)
    child = os.fork()
    if child == 0:
        drive(path)
    while running and size(log) == before:
        time.sleep(0.01)
    time.sleep(seconds)
    moment = time.time()
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return moment if os.WIFSIGNALED(status) else None


def size(log):
    return os.path.getsize(log) if os.path.exists(log) else 0


def main(path, log, kills, seed):
    os.environ["OWLFI_TEST_LOG"] = log
    draw = random.Random(int(seed))
    moments = [
        killed_after(path, log, draw.uniform(0.0, 1.0), running=i % 2 == 1)
        for i in range(int(kills))
    ]
    print(json.dumps(moments))


if __name__ == "__main__":
    main(*sys.argv[1:])
