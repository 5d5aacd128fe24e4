"""The kernel that notebooks run in reads every request, also one that comes while it replies to another.

Version 7.2.0 of ipykernel, for one, may leave it unread: the cell then waits until the kernel is restarted
(https://github.com/ipython/ipykernel/issues/1554).
"""

import time

import numpy as np
from jupyter_client.manager import start_new_kernel

PATIENCE = 30  # seconds for a reply that takes milliseconds, on a busy machine
LONGEST = 0.006  # seconds from a request to the next: longer than a reply takes


def executed(client):
    """The next reply to a request to execute; start_new_kernel may have asked twice what the kernel is."""
    while (reply := client.get_shell_msg(timeout=PATIENCE))["msg_type"] != "execute_reply":
        pass
    return reply


def test_a_request_beside_a_reply_is_read():
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for pause in np.random.default_rng(0).uniform(0, LONGEST, size=400):
            first = client.execute("x = 1")
            time.sleep(pause)
            second = client.execute("y = 2")
            replies = [executed(client) for _ in range(2)]
            assert [reply["parent_header"]["msg_id"] for reply in replies] == [first, second]
            assert [reply["content"]["status"] for reply in replies] == ["ok", "ok"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
