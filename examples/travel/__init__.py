"""A travel agency on PostgreSQL: searches, recommendations, log-ins, and trips that are reserved in transactions.

    pip install 'onceflow[postgres]'
    cd examples
    python -m travel                            # the usual mix: 60 % searches, 39 % recommendations, few trips
    python -m travel --reserve-only             # nothing but trips
    python -m travel --failures 0.1             # one attempt in ten raises, or its worker is killed
    python -m travel --database postgresql://…  # default: a server of its own, for this once
    python -m travel --journal database         # runs are kept in PostgreSQL, too

At the end the books are checked: places that are taken are places that were ordered, each transaction that committed
has one order, and no lock is left. The requests have names, so if the program is killed and started again on the same
database, it goes on.

world       the database, and locks in it
looking     requests that only look
trips       requests that reserve, and what each of their tasks is to onceflow
customers   those who make requests
luck        what goes wrong
"""
