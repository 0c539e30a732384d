"""Work of the kinds that pyperformance measures, without what it needs installed: ROUNDS."""

import json
import random
import re
import sys


class Body:
    """A point with a mass that others pull."""

    def __init__(self, chance):
        self.at = [chance.uniform(-1, 1) for _ in range(3)]
        self.speed = [0.0, 0.0, 0.0]
        self.mass = chance.random()


def pull(bodies, step):
    for i, a in enumerate(bodies):
        for b in bodies[i + 1 :]:
            gap = [p - q for p, q in zip(a.at, b.at, strict=True)]
            force = step / (sum(g * g for g in gap) + 0.01) ** 1.5
            for k in range(3):
                a.speed[k] -= gap[k] * b.mass * force
                b.speed[k] += gap[k] * a.mass * force
    for each in bodies:
        each.at = [p + step * v for p, v in zip(each.at, each.speed, strict=True)]


def records(chance, count):
    return [
        {
            "id": i,
            "name": f"user{chance.randrange(10**6)}",
            "tags": chance.sample(range(100), 5),
            "score": chance.random(),
        }
        for i in range(count)
    ]


def main(rounds):
    chance = random.Random(1)
    bodies = [Body(chance) for _ in range(12)]
    pattern = re.compile(r'"name": "(user\d+)", "tags": \[(\d+(?:, \d+)*)\]')
    seen = {}
    for _ in range(rounds):
        text = json.dumps(records(chance, 400))
        for name, tags in pattern.findall(text):
            seen.setdefault(name, []).extend(map(int, tags.split(", ")))
        best = sorted(json.loads(text), key=lambda row: (-row["score"], row["name"]))
        seen[best[0]["name"]].append(-1)
        pull(bodies, 0.01)
    print(len(seen), sum(map(len, seen.values())), bodies[0].at)


main(int(sys.argv[1]))
