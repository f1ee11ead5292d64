"""The embedded backend: worker processes on this host, driven from one selector loop.

Three kinds of processes:

- The **engine's process** holds a `Pool`. The pool has no thread: it registers its descriptors with the engine's
  selector and is called when they are ready.
- The **fork server** is started as a subprocess that never sees the user's script. It forks workers, reaps them, and
  reports both to the pool. It watches the engine through a pidfd; when the engine is gone it ends its workers, then
  itself.
- A **worker** runs user code. It is killed by the kernel when the fork server dies (`PR_SET_PDEATHSIG`).

The fork server also starts the engine's porter (`onceflow.data.porter`), which has nothing else to do with the pool.

Large values stay in the worker that made them, or in shared memory (`onceflow.data`): `objects` is a worker's side of
that, `live_outputs` what it has not written yet, `refs` what its jobs refer to. `locality` decides which jobs run where
their inputs are, `live_publishing` has the others' inputs written.

Fork server and workers share one open file description that holds an flock (`workers.lock`). It is released when the
last of them is gone, which proves to an engine that takes over a run that nothing of it runs any more (design 2.6).
Where engines on other hosts may take over, the kernel kills fork server and workers before they do (`worker_deadline`).

A worker has three Unix sockets, all `SOCK_SEQPACKET`: one packet is one batch of messages, and it is received whole or
not at all, by one receiver.

- The **lane** carries jobs that run one at a time in the worker's main thread, several queued ahead if they are short,
  and their outcomes, in batches.
- The **side** is read by a thread of its own, which sleeps unless there is something to do while the main thread runs
  user code: to give back jobs that have not started, to start async jobs and threads, to stop jobs.
- The **channel** carries what user code prints and logs, and how far it is (`output_sender`, `output_receiver`,
  `output_relay`, `progress`). The pool passes on what a job said before it reports the job. Descriptors 1 and 2 are
  pipes that the pool reads, for what goes past Python's streams. Code that prints faster than the pool reads has to
  wait.

Exactly once: a job that is in a worker either starts there or is given back, decided by which thread takes it out of
one deque under the interpreter lock. Before a job starts, the main thread writes its place in the lane to a page that
it shares with the pool (`mark`). If the worker dies, what was sent to it after that place has never started.

A job that is to stop is notified: `Stopped` is raised in it (`stop_injection`), so that it can clean up. If that does
not help, its worker is killed. Either way the worker goes, and everything that it started goes with it, whatever
sessions and daemons it made of itself (`forkserver`); only then the job is reported as ended.

- `pool`: jobs in, reports out
- `reports`: reports of the pool about jobs
- `admission`: which jobs may run at the same time, by the resources that they need
- `capacity`: how much memory there is for jobs
- `reservations`: places that are kept for attempts before they begin
- `dispatch`: which worker gets which job
- `pending_jobs`: the jobs that no worker has yet
- `fair_queue`: a line of jobs in which runs take turns
- `send_ahead`: how many jobs a worker gets ahead
- `locality`: where jobs run that read live objects
- `live_publishing`: live objects on their way to shared memory
- `workers`: the pool's side of one worker
- `worker_messages`: messages of workers to the pool
- `stragglers`: workers that make no progress
- `forkserver`: the process that forks and reaps workers
- `forkserver_client`: the pool's side of the fork server
- `fork_servers`: the fork servers of a pool, of which the last one forks
- `locks`: the lock that proves that the workers are gone
- `worker_deadline`: until when workers may run, where a lease limits that
- `worker_process`: the worker's threads
- `job_runner`: runs one job in a worker
- `concurrent`: async jobs and threads, which share a worker
- `stop_injection`: raises `Stopped` in a job that runs
- `objects`: large values in a worker
- `live_outputs`: outputs that stay in the memory of their worker
- `refs`: refs in a worker
- `variables`: task variables in a worker
- `actors`: actors on this host
- `sources`: whether the user's source files have changed
- `delegated_runs`: runs that a worker drives by itself
- `progress`: the worker's side of `current().progress`
- `output_sender`: the worker's side of what user code prints and logs
- `output_receiver`: the pool's side of that
- `output_relay`: passes task output on to the logs and to listening callers
- `messages`: the messages between pool and workers
"""
