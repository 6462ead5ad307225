#!/usr/bin/env python3
"""`foreshard serve` under load and strangers.

A thousand connections, readers and writers that are slow, questions that run into each limit, foreign hosts and
origins, requests that are none. Meanwhile other requests are answered, the server's memory stays bounded, and SIGTERM
ends it within a second with status 0 and nothing left running.
"""
import socket
import threading
import time

import harness
import pages
from harness import Failure
from mutate import mutate_bytes

RSS_LIMIT = 1 << 30
ANSWER_LIMIT = 5  # seconds of a request meanwhile: milliseconds on a machine that does nothing else
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
# Each is refused, or its answer is cut.
QUESTIONS = [
    ENDLESS + "SELECT count(*) FROM n", ENDLESS + "SELECT x FROM n", ENDLESS + "SELECT x FROM n WHERE x < 0",
    "SELECT instr(zeroblob(16000000), zeroblob(8000000) || x'01')",
    "SELECT " + ",".join(["zeroblob(16000000)"] * 20), "SELECT " + ",".join(["hex(zeroblob(4000000))"] * 100),
    ENDLESS + "SELECT group_concat(printf('%.*c', 1000000, 'x')) FROM n",
    ENDLESS + ", m(y) AS (SELECT x FROM n LIMIT 3000000) SELECT count(*) FROM m a JOIN m b ON a.y + b.y = 1",
    "SELECT * FROM allocator_event a, allocator_event b, allocator_event c ORDER BY random()",
    "SELECT replace(zeroblob(10000000), x'00', zeroblob(10000000))",
    "SELECT " + "(" * 2000 + "1" + ")" * 2000, "SELECT fts3_tokenizer('simple')", "SELECT load_extension('x')",
    "ATTACH 'x' AS y", "PRAGMA writable_schema=1", "DELETE FROM step", "VACUUM INTO 'x'",
    "SELECT readfile('/etc/passwd')",
]
HOSTS = ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.evil.example",
         "localhost", "localhost:{port}@evil", "0.0.0.0:{port}", "127.0.0.2:{port}", "[::]:{port}", "2130706433:{port}",
         "127.1:{port}", "LOCALHOST.evil:{port}", "", "localhost:{port}/x", "127.0.0.1:0{port}", "a b:{port}",
         "127.0.0.1:{port}, evil"]
ORIGINS = ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1",
           "http://localhost.evil:{port}", "file://", "http://127.0.0.1:{port}@evil", "http://[::1]", "x"]
SITES = ["cross-site", "same-site", "x"]


def request(server, path="/", host=None, more="", method="GET"):
    host = f"127.0.0.1:{server.port}" if host is None else host
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode()


def connect(server, receive=None):
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    line.settimeout(30 * harness.SLOWER)
    line.connect(("127.0.0.1", server.port))
    return line


def talk(server, data):
    """All that is answered to some bytes."""
    with connect(server) as line:
        parts = []
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            while piece := line.recv(65536):
                parts.append(piece)
        except OSError:  # it was closed
            pass
        return b"".join(parts)


def status_of(answer):
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def answers_still(server, measured):
    begun = time.monotonic()
    status, body = server.ask("GET", "/run/0/1/meta")
    seconds = time.monotonic() - begun
    if status != 200 or not body:
        raise Failure(f"meanwhile a request is answered with {status}")
    if seconds > ANSWER_LIMIT * harness.SLOWER:
        raise Failure(f"meanwhile a request takes {seconds:.1f} s")
    measured["a request meanwhile, s"] = max(measured.get("a request meanwhile, s", 0), round(seconds, 3))


def many_connections(server, count, measured, rng):
    lines = []
    for n in range(count):
        try:
            lines.append(connect(server))
        except OSError:
            break
        if n % 100 == 0:
            answers_still(server, measured)
    answers_still(server, measured)
    measured["descriptors of the server"] = len(list(harness.pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))
    for line in lines:
        line.close()
    return {"opened": len(lines)}


def slow_readers(server, count, measured, rng):
    """They ask for all that there is, and do not read it."""
    lines = []
    question = b"SELECT hex(zeroblob(7000000))"
    for n in range(count):
        line = connect(server, 4096)
        if n % 2:
            line.sendall(request(server, "/run/0/1/ops/0") * 20)
        else:
            more = f"Content-Type: application/sql\r\nContent-Length: {len(question)}\r\n"
            line.sendall(request(server, "/run/0/sql", method="POST", more=more) + question)
        lines.append(line)
    for _ in range(4):
        time.sleep(0.5)
        answers_still(server, measured)
    for line in lines:
        line.close()
    return {"left unread": count}


def slow_writers(server, count, measured, rng):
    """A byte a second: ended after ten seconds."""
    lines = [connect(server) for _ in range(count)]
    text = request(server, more="X: y\r\n" * 50)
    ended = set()
    for second in range(13 * harness.SLOWER):
        for n, line in enumerate(lines):
            if n not in ended:
                try:
                    line.send(text[second:second + 1])
                    line.setblocking(False)
                    if line.recv(1000) == b"" or second:
                        ended.add(n)
                except BlockingIOError:
                    pass
                except OSError:
                    ended.add(n)
        answers_still(server, measured)
        if len(ended) == count:
            break
        time.sleep(1)
    if len(ended) != count:
        raise Failure(f"{count - len(ended)} slow writers still have a connection after 13 s")
    return {"ended by the server": count}


def heavy_questions(server, count, measured, rng):
    """Each alone, within its limits; then all at once."""
    counts = {}
    chosen = QUESTIONS if count >= len(QUESTIONS) else rng.sample(QUESTIONS, count)
    for text in chosen:
        begun = time.monotonic()
        status, body = server.sql(text)
        seconds = time.monotonic() - begun
        measured["longest question, s"] = max(measured.get("longest question, s", 0), round(seconds, 1))
        seen = "refused" if 400 <= status < 500 else "cut" if b'"truncated":true' in body else f"answered with {status}"
        if seen.startswith("answered") or seconds > 12 * harness.SLOWER or len(body) > 17 << 20:
            raise Failure(f"{text[:100]}: {seen} after {seconds:.1f} s, {len(body)} bytes: {body[:200]!r}")
        counts[seen] = counts.get(seen, 0) + 1
    threads, seen = [], []
    for text in chosen * 2:
        threads.append(threading.Thread(target=lambda t=text: seen.append(server.sql(t)[0])))
        threads[-1].start()
    time.sleep(0.5)
    answers_still(server, measured)
    for thread in threads:
        thread.join()
    if not set(seen) <= {200, 400, 503}:
        raise Failure(f"asked at once: {sorted(set(seen))}")
    counts["asked at once"] = len(seen)
    return counts


def strangers(server, count, measured, rng):
    """Hosts, origins and sites that are not this server's; each with the page, a piece and a question."""
    tries = [("Host", host, 421) for host in HOSTS] + [("Origin", origin, 403) for origin in ORIGINS]
    tries += [("Sec-Fetch-Site", site, 403) for site in SITES]
    done = 0
    for name, value, wanted in tries:
        value = value.format(port=server.port)
        for path in ("/", "/run/0/1/meta", "/run/0/sql"):
            host = value if name == "Host" else None
            more = "" if name == "Host" else f"{name}: {value}\r\n"
            answer = talk(server, request(server, path, host, more, "POST" if path.endswith("sql") else "GET"))
            if status_of(answer) not in (wanted, 400) or b"Access-Control-Allow-Origin" in answer:
                raise Failure(f"{name}: {value!r} of {path}: {answer[:100]!r}")
            done += 1
    return {"refused": done}


def garbage(server, count, measured, rng):
    """Requests that are mutated, and bytes that are none."""
    counts = {}
    plain, chunked = "Content-Type: application/sql\r\nContent-Length: 8\r\n", "Transfer-Encoding: chunked\r\n"
    seeds = [request(server, path) for path in ("/", "/run/0/1/meta", "/compare/0/0/", "/run/0/progress?from=0")]
    seeds += [request(server, "/run/0/sql", method="POST", more=plain) + b"SELECT 1",
              request(server, "/run/0/sql", method="POST", more=chunked) + b"8\r\nSELECT 1\r\n0\r\n\r\n"]
    for _ in range(count):
        data = mutate_bytes(rng.choice(seeds), rng) if rng.random() < 0.9 else rng.randbytes(rng.randrange(1, 3000))
        status = status_of(talk(server, data))
        if status >= 500 and status != 505:
            raise Failure(f"status {status} for {data[:300]!r}")
        kind = "answered" if status == 200 else "refused" if status else "closed without an answer"
        counts[kind] = counts.get(kind, 0) + 1
    answers_still(server, measured)
    return counts


SCENARIOS = {"connections that stay open": (many_connections, 1000), "answers that nobody reads": (slow_readers, 200),
             "requests a byte a second": (slow_writers, 200), "heavy questions": (heavy_questions, len(QUESTIONS)),
             "foreign hosts, origins, sites": (strangers, 1), "mutated requests": (garbage, 3000)}


def run_case(case, rng, folder):
    row, = case
    scenario, count = SCENARIOS[row]
    server = pages.Server(OPTIONS.foreshard, [STORE], folder, memory=16 << 30)
    if server.port is None:
        raise Failure(server.outcome.err)
    measured = {}
    try:
        answers_still(server, measured)
        counts = scenario(server, max(1, round(count * OPTIONS.share)), measured, rng)
        measured["peak of the server, MiB"] = round(server.rss("VmHWM") / 2**20)
        if server.rss("VmHWM") > RSS_LIMIT and not harness.SANITIZED:
            raise Failure(f"the server takes {server.rss('VmHWM') / 2**20:.0f} MiB")
    finally:
        if server.running():
            measured["end after SIGTERM, s"] = round(server.stop(), 3)
    return counts, measured


if __name__ == "__main__":
    OPTIONS = harness.read_options("server")
    root = harness.work_folder()
    STORE = root / "run.db"
    sample = harness.SAMPLES / "l1b_implicit"
    made = harness.run([OPTIONS.foreshard, "import", "--snapshot", f"{sample}.pickle.xz", "--trace",
                        f"{sample}.trace.json.xz", "--about", f"{sample}.about.json", "-o", STORE], root)
    if made.status != 0:
        raise SystemExit(made.err)
    harness.figure(OPTIONS, "server", "serve", [(row,) for row in SCENARIOS], run_case, all_cases=True)
