"""The programs of paper 2, each by the recipe that records what stands for it here."""

from dataclasses import dataclass, replace

from mmulab.reproduce.instruction.published import STATED, Stated


@dataclass(frozen=True)
class Program:
    """A program of Table IV."""

    # Its name in the paper's tables.
    name: str
    recipe: str
    # Parameters of the recipe.
    sets: tuple[str, ...] = ()
    # Whether the paper changed it to have compiled code in pieces of 2 MB.
    is_java: bool = False
    # Where files laid out anew lie, if the program maps memory of its own where they usually do.
    window: str | None = None
    # Clients of a server, where that distinguishes it from other rows of the same name.
    clients: int | None = None

    @property
    def label(self) -> str:
        """Its name in tables here: no two recordings of a run have the same."""
        return self.name if self.clients is None else f"{self.name}, {self.clients} clients"

    @property
    def stated(self) -> Stated:
        """What the paper says of it."""
        return STATED[self.name]

    def with_clients(self, count: int) -> "Program":
        """The same server with another number of clients."""
        return replace(self, sets=(f"clients={count}",), clients=count)


# V8 asks for memory at random addresses below 256 GB, and more.
ABOVE = "0x500000000000"
CLANG = Program("Clang", "clang-parallel")
# As the paper compiles: a small program, from its first line to its object file.
COMPILATION = Program("Clang", "clang-dhrystone", ("times=1",))
RECONNECTING = Program("PostgreSQL, reconnecting", "postgres-reconnect", ("clients=10",))
PERSISTENT = Program("PostgreSQL, persistent", "postgres-pgbench", ("clients=10",))
JAVAC = Program("Javac", "javac", is_java=True)
DERBY = Program("Derby", "derby", is_java=True)
NODE = Program("Node.js", "node-react-ssr", window=ABOVE)
MYSQL = Program("MySQL", "mariadb-sysbench")
PROGRAMS = (CLANG, PERSISTENT, RECONNECTING, JAVAC, DERBY, NODE, MYSQL)
BY_RECIPE = {program.recipe: program for program in (*PROGRAMS, COMPILATION)}
