"""A running `foreshard serve`, and requests to it."""
import http.client
import os
import re
import select
import signal
import time

import harness
from harness import Failure

PIECES = ["meta", "names", "answer", "explain", "time", "ranks", "ops/0", "hostops/0"]


class Server:
    """serve of some files on a free port. None as `port` where it ended by itself: then `outcome` says how."""

    def __init__(self, program, arguments, folder, memory=4 << 30):
        self.begun = time.monotonic()
        self.process = harness.start([program, "serve", *arguments, "--port", "0"], folder, memory=memory)
        self.port, self.outcome, self.said = None, None, b""
        pipe = self.process.stdout.fileno()
        deadline = self.begun + 30 * harness.SLOWER
        while b"\n" not in self.said and time.monotonic() < deadline:
            if select.select([pipe], [], [], 1)[0]:
                data = os.read(pipe, 4096)
                if not data:
                    break
                self.said += data
        found = re.search(rb"http://127\.0\.0\.1:(\d+)/", self.said)
        if found:
            self.port = int(found[1])
        else:
            self.outcome = harness.outcome_of(self.process, time.monotonic(), 30)

    def ask(self, method, path, body=None, headers=None, seconds=60):
        """(status, body) of one request."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds * harness.SLOWER)
        try:
            line.request(method, path, body, headers or {})
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()

    def sql(self, text, **more):
        return self.ask("POST", "/run/0/sql", text.encode(), {"Content-Type": "application/sql"}, **more)

    def rss(self, key="VmRSS"):
        """Of the server's own process, in bytes."""
        facts = open(f"/proc/{self.process.pid}/status").read()
        return int(re.search(key + r":\s+(\d+)", facts)[1]) * 1024

    def running(self):
        return self.process.poll() is None

    def stop(self, seconds=1):
        """SIGTERM: it ends with 0 within a second, and has started nothing that goes on."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        outcome = harness.outcome_of(self.process, begun, 20)
        if outcome.status != 0:
            raise Failure(f"serve ends with {outcome.status}: {harness.last_lines(outcome.err, 6)}")
        if outcome.seconds > seconds * harness.SLOWER:
            raise Failure(f"serve needs {outcome.seconds:.1f} s to end")
        return outcome.seconds


def visit(program, store, folder, options=(), seconds=60):
    """A page of a store with its pieces and one question; (refusal or None, all that was answered). seconds: of an
    answer."""
    server = Server(program, [store, *options], folder)
    if server.port is None:
        return server.outcome, None
    try:
        paths = ("/", *(f"/run/0/1/{piece}" for piece in PIECES))
        answers = [server.ask("GET", path, seconds=seconds) for path in paths]
        answers.append(server.sql("SELECT * FROM step_summary"))
    except (OSError, http.client.HTTPException) as error:
        outcome = harness.outcome_of(server.process, time.monotonic(), 1)
        said = f"{outcome.status}: {harness.last_lines(outcome.err, 6)}"
        raise Failure(f"serve gives no answer ({error!r}): {said}") from None
    finally:
        if server.process.returncode is None and server.running():
            server.stop()
    return None, answers
