"""Mutations of inputs: of their bytes, and of what their JSON or pickle says."""
import gzip
import json
import lzma
import pickle

NUMBERS = [0, 1, -1, 2, 127, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -2**63,
           -2**63 - 1, 1e308, -1e308, 5e-324, 0.1, 10**30]
TEXTS = ["", " ", "x" * 70000, "\u0000", "\x1b[2J\x07", "<script>alert(1)</script>", "\u202e\u2066", "\U0001f9e8" * 9,
         "é", "layers.0", "%s%n", "../../x", "-1", "NaN", "None"]
OTHERS = [None, True, False, [], {}, [[]], {"": None}]
TIMES = ("ts", "time_us", "dur", "start_time", "t")


def container(value, rng):
    """A random list or object within `value`, met on a random way down."""
    here = value
    while True:
        inside = [v for v in (here.values() if isinstance(here, dict) else here) if isinstance(v, (dict, list)) and v]
        if not inside or rng.random() < 0.15:
            return here
        here = rng.choice(inside)


def places(value):
    return list(value) if isinstance(value, dict) else list(range(len(value)))


def another(value, rng):
    """A value for one that stands somewhere: near it, extreme, or of another kind."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    pick = rng.random()
    if number and pick < 0.5:
        near = [value + 1, value - 1, -value, value * 2, value * 1000, value // 2, value + 512, value + 10**6]
        return rng.choice(near)
    if pick < 0.75:
        return rng.choice(NUMBERS if number else TEXTS)
    return rng.choice([*NUMBERS, *TEXTS, *OTHERS])


def shift_times(value, rng):
    """A clock that was set: every time behind a place in a list of events, by as much."""
    events = max((v for v in lists_in(value)), key=len, default=[])
    if not events:
        return
    by = rng.choice([-10**6, -1000, -1, 1, 1000, 10**6, 10**12, -10**12])
    for event in events[rng.randrange(len(events)):]:
        if isinstance(event, dict):
            for key in TIMES:
                if isinstance(event.get(key), (int, float)) and key != "dur":
                    event[key] += by


def lists_in(value):
    stack = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, list):
            if here and isinstance(here[0], dict):
                yield here
            stack += [v for v in here[:3] if isinstance(v, (dict, list))]
        else:
            stack += [v for v in here.values() if isinstance(v, (dict, list))]


def reorder(value, rng):
    items = max((v for v in lists_in(value)), key=len, default=[])
    if len(items) < 2:
        return
    a, b = sorted(rng.randrange(len(items)) for _ in range(2))
    kind = rng.choice(["drop", "double", "reverse", "swap", "move"])
    if kind == "drop":
        del items[a:b + 1]
    elif kind == "double":
        items[b:b] = items[a:min(b, a + 500)]
    elif kind == "reverse":
        items[a:b] = items[a:b][::-1]
    elif kind == "swap":
        items[a], items[b] = items[b], items[a]
    else:
        items.insert(a, items.pop(b))


def change(value, rng):
    """One change at a random place."""
    here = container(value, rng)
    if not here:
        return
    at = rng.choice(places(here))
    kind = rng.choice(["value", "value", "value", "remove", "double", "swap", "rename"])
    if kind == "value" or (kind == "rename" and isinstance(here, list)):
        here[at] = another(here[at], rng)
    elif kind == "remove":
        del here[at]
    elif kind == "double":
        if isinstance(here, list):
            here.insert(at, here[at])
        else:
            here[rng.choice(TEXTS)] = here[at]
    elif kind == "swap":
        other = rng.choice(places(here))
        here[at], here[other] = here[other], here[at]
    else:
        here[at + rng.choice(["_", "s", "\u0000"]) if isinstance(at, str) else at] = here.pop(at)


def mutate(value, rng):
    """Changes what a JSON text or a pickle says, in place: mostly at one place or two."""
    pick = rng.random()
    if pick < 0.15:
        shift_times(value, rng)
    elif pick < 0.35:
        reorder(value, rng)
    else:
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            change(value, rng)


def mutate_bytes(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if not data:
            break
        a = rng.randrange(len(data))
        kind = rng.choice(["flip", "flip", "byte", "cut", "remove", "double", "insert", "digits"])
        if kind == "flip":
            data[a] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            data[a] = rng.choice([0, 0xFF, 0x7F, ord("-"), ord("9"), ord('"'), ord("{"), ord("]")])
        elif kind == "cut":
            del data[a:]
        elif kind == "remove":
            del data[a:a + rng.randrange(1, 200)]
        elif kind == "double":
            data[a:a] = data[a:a + rng.randrange(1, 2000)]
        elif kind == "insert":
            data[a:a] = rng.randbytes(rng.randrange(1, 20))
        else:
            data[a:a] = b"9" * rng.randrange(1, 40)
    return bytes(data)


class File:
    """An input file: its bytes, and what it says where it is JSON or a pickle; packed or plain."""

    def __init__(self, path, name=None):
        packed = path.read_bytes()
        self.name = name or path.name
        self.packing = {"xz": lzma, "gz": gzip}.get(path.suffix[1:])
        self.packed = packed
        self.plain = self.packing.decompress(packed) if self.packing else packed
        stem = self.name.removesuffix(path.suffix) if self.packing else self.name
        self.kind = "pickle" if stem.endswith("pickle") else "json" if stem.endswith("json") else "text"

    def mutated(self, rng):
        """Its bytes with a mutation: of what it says (mostly), of the text, or of the packed file."""
        pick = rng.random()
        if self.kind == "text" or pick < 0.25:
            if self.packing and pick < 0.05:
                return mutate_bytes(self.packed, rng)
            return self.repacked(mutate_bytes(self.plain, rng))
        value = pickle.loads(self.plain) if self.kind == "pickle" else json.loads(self.plain)
        mutate(value, rng)
        if self.kind == "pickle":
            return self.repacked(pickle.dumps(value, 4))
        return self.repacked(json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace"))

    def repacked(self, data):
        if self.packing is lzma:
            return lzma.compress(data, preset=0)
        return gzip.compress(data, 1) if self.packing else data
