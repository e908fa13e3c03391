"""All that a detector imports of gpumon, the built-in ones too; its tests: `gpumon.plugin.testing`.

What is here changes with a line in the changelog. Everything else of gpumon may move.
"""

from gpumon.detect.claims import LEAST_EVIDENCE_S, Claimant, Windows, honest_confidence
from gpumon.detect.contract import Detector
from gpumon.detect.facts.facts import EventFacts, GpuFacts, LinkFacts, NodeFacts, ProcessFacts
from gpumon.detect.features.feature import Feature, feature_text
from gpumon.detect.features.table import FEATURES, FeatureTable, features_of
from gpumon.detect.learning.cases import Case, CasesError, read_cases
from gpumon.detect.learning.model import ABSTAINS_BELOW, Learnt, Model, Verdict, read_model
from gpumon.detect.learning.named import Named, NamedError, named_patterns
from gpumon.detect.learning.near import Near, nearest
from gpumon.detect.learning.signatures import SIGNATURES, Signature
from gpumon.detect.learning.trees import ModelError
from gpumon.detect.series import (
    GAP_PERIODS,
    LEAST_GAP_S,
    Past,
    Table,
    bridged,
    rows_since,
    unbroken_since,
)
from gpumon.detect.user_hold import UserHold, holds_of
from gpumon.detect.view import JobLook, View
from gpumon.model.catalogue.fields import clock_event_names
from gpumon.model.finding import Confidence, Evidence, Finding, Severity, Window
from gpumon.model.gpu.code_names import FABRIC_HEALTH, RECOVERY_ACTIONS, code_name
from gpumon.model.gpu.conditions import CONDITIONS, Condition, Wrong
from gpumon.model.gpu.hardware import Sheet, sheet_named
from gpumon.model.gpu.pcie import pcie_bytes_per_s
from gpumon.model.gpu.xid import Action, Xid
from gpumon.model.hostlist import is_host_name
from gpumon.model.job_name import job_name
from gpumon.model.job_states import HOLDING_STATES
from gpumon.model.records.cluster import Allocation, Job, JobView
from gpumon.model.work_floor import (
    ENGINE_BUSY,
    LINK_BUSY_BYTES_PER_S,
    SOME_MEMORY,
    SOME_TENSOR,
    SPINNING_SM,
)

__all__ = [
    "ABSTAINS_BELOW",
    "CONDITIONS",
    "ENGINE_BUSY",
    "FABRIC_HEALTH",
    "FEATURES",
    "GAP_PERIODS",
    "HOLDING_STATES",
    "LEAST_EVIDENCE_S",
    "LEAST_GAP_S",
    "LINK_BUSY_BYTES_PER_S",
    "RECOVERY_ACTIONS",
    "SIGNATURES",
    "SOME_MEMORY",
    "SOME_TENSOR",
    "SPINNING_SM",
    "Action",
    "Allocation",
    "Case",
    "CasesError",
    "Claimant",
    "Condition",
    "Confidence",
    "Detector",
    "EventFacts",
    "Evidence",
    "Feature",
    "FeatureTable",
    "Finding",
    "GpuFacts",
    "Job",
    "JobLook",
    "JobView",
    "Learnt",
    "LinkFacts",
    "Model",
    "ModelError",
    "Named",
    "NamedError",
    "Near",
    "NodeFacts",
    "Past",
    "ProcessFacts",
    "Severity",
    "Sheet",
    "Signature",
    "Table",
    "UserHold",
    "Verdict",
    "View",
    "Window",
    "Windows",
    "Wrong",
    "Xid",
    "bridged",
    "clock_event_names",
    "code_name",
    "feature_text",
    "features_of",
    "holds_of",
    "honest_confidence",
    "is_host_name",
    "job_name",
    "named_patterns",
    "nearest",
    "pcie_bytes_per_s",
    "read_cases",
    "read_model",
    "rows_since",
    "sheet_named",
    "unbroken_since",
]
