"""GPUs that are held and not used.

Sees `evidence`. `rest` says when a GPU does nothing, `startup` when that is still a beginning;
begin with `idle_held`.
"""
