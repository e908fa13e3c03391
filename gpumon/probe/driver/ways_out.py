"""What to do where the driver, or a GPU of it, does not answer: hints of errors."""

import pynvml

REFUSED = "look at dmesg and nvidia-smi on the node; the GPU may need a reset"

GONE = "drain the node and power-cycle it: a lost GPU does not come back by a reset"

CLOSED = (
    "this user may not use it: inside a job only the job's GPUs open; else ask an administrator"
)

HIDDEN = "root sees them; without them nobody can tell which GPUs are in use by whom"

WAYS_OUT = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "no NVIDIA driver library (libnvidia-ml.so.1) on this node"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded: modprobe nvidia",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the driver was updated under a running kernel module: reboot the node, or end all "
        "that uses its GPUs and load the nvidia modules anew"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "this user may not open the driver's files: look at ls -l /dev/nvidia*; inside a container "
        "or a job see that it was given GPUs"
    ),
    pynvml.NVML_ERROR_IRQ_ISSUE: (
        "a GPU's interrupts do not arrive: look for its bus address in dmesg, then power-cycle the "
        "node"
    ),
    pynvml.NVML_ERROR_MEMORY: "the node is out of memory: look at free and dmesg on it",
}
"""What to do where the driver does not open, by NVML's return code (nvml.h)."""

UNEXPLAINED = "look at dmesg and nvidia-smi on the node to see what the driver says"

GPU_WAYS_OUT = {
    pynvml.NVML_ERROR_GPU_IS_LOST: GONE,
    pynvml.NVML_ERROR_NO_PERMISSION: CLOSED,
    pynvml.NVML_ERROR_IRQ_ISSUE: WAYS_OUT[pynvml.NVML_ERROR_IRQ_ISSUE],
    pynvml.NVML_ERROR_MEMORY: WAYS_OUT[pynvml.NVML_ERROR_MEMORY],
}
"""The same where a GPU does not open."""

STRANGE = "please report this with the driver's version"

WEDGED = "the driver may be wedged; look at dmesg and nvidia-smi on the node"
