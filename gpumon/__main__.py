"""`python -m gpumon`, and the command `gpumon`."""

# Not signal, which comes with enum: the probe of this machine is to start before either.
import _signal as signal
import sys

# Until the command line answers it, Ctrl-C ends gpumon as it ends any program: no traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from gpumon.cli import main

if __name__ == "__main__":
    sys.exit(main())
