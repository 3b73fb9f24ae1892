"""What the stories of real frameworks are told with.

A **harness** is a module (`langgraph_harness`, …) with what `harness.Harness` asks for: a real agent of one framework,
its tool gated by the public SDK, a model that answers from the conversation alone. Everything it has lies in the folder
it runs in: `desk.json` (`desk.Desk`), its checkpoints, `effects` (one line for each time the tool ran). It reaches the
points of `points.Point`, where a story may kill it or make it stand still.

A **waker** is what takes notifications and wakes the harness: `wakegate_waker.Wakegate` (receiver and worker as
processes, the harness's resumer in `WAKEGATE_RESUMERS`) or `sdk_waker.SdkReceiver` (the SDK's own, one process).

A **story** (`stories.py`) is told of any harness with any waker, at one provider, and what came of it is an
`stories.Observed`. `stage.Stage` puts the three together; `programs.py` forks harness and SDK receiver from a process
that has imported the framework.

To add a framework: write its module, name it in `harness.HARNESSES`, and tell the same stories.
"""
