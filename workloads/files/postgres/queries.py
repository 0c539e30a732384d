"""What one session says: `fill ROWS` makes a table, `ask ROWS QUERIES` reads rows of it at random."""

import random
import sys

what, rows = sys.argv[1], int(sys.argv[2])
if what == "fill":
    print("create table accounts (id int primary key, balance int, filler char(84))")
    print(f"insert into accounts select i, 0, '' from generate_series(1, {rows}) i")
    print("vacuum analyze accounts")
else:
    chance = random.Random(1)
    for _ in range(int(sys.argv[3])):
        print(f"select balance from accounts where id = {chance.randint(1, rows)}")
