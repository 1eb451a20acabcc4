# What the rest of Collie may ask for, by the room that it comes from.

from .baselines import Baseline as Baseline, read_baseline as read_baseline
from .benches import (
    NamedCase as NamedCase,
    bench as bench,
    calibrate as calibrate,
    case_named as case_named,
    workload_named as workload_named,
)
from .campaigns import (
    NO_SCHEDULER as NO_SCHEDULER,
    OpenCampaign as OpenCampaign,
    begin as begin,
    resume as resume,
    scheduler_said as scheduler_said,
    score as score,
)
from .checks import (
    MeasuredHits as MeasuredHits,
    application_named as application_named,
    application_of_perftest as application_of_perftest,
    known_anomalies as known_anomalies,
    measure_hits as measure_hits,
)
from .exports import EXPORTS as EXPORTS, Exported as Exported, export as export
from .fleets import (
    MAX_PAIRS as MAX_PAIRS,
    MAX_SIMULATED as MAX_SIMULATED,
    SIMULATED_HOSTS as SIMULATED_HOSTS,
    Fault as Fault,
    FaultKind as FaultKind,
    FleetChoice as FleetChoice,
    FleetResult as FleetResult,
    fleet as fleet,
    simulated_names as simulated_names,
)
from .gates import OpenGate as OpenGate, gate as gate, recorded_gate as recorded_gate
from .hosts import (
    check as check,
    diff as diff,
    fingerprints_named as fingerprints_named,
    take_fingerprints as take_fingerprints,
    watch as watch,
)
from .inventories import (
    LAB as LAB,
    first_pair as first_pair,
    lab_inventory as lab_inventory,
    open_inventory as open_inventory,
)
from .parts import (
    known_sets as known_sets,
    limits_of as limits_of,
    narrowed_space_of as narrowed_space_of,
    recipe_of as recipe_of,
    space_named as space_named,
    space_of as space_of,
    system_clock as system_clock,
)
from .plans import describe as describe
from .records import (
    read_campaign as read_campaign,
    recorded_choice as recorded_choice,
    write_comparison as write_comparison,
    write_report as write_report,
)
from .simulation import (
    MapChoice as MapChoice,
    NamedSubsystem as NamedSubsystem,
    audit_subsystem as audit_subsystem,
    describe_subsystem as describe_subsystem,
    severity_map as severity_map,
    subsystems as subsystems,
)
from .standing import (
    CampaignStatus as CampaignStatus,
    Life as Life,
    status as status,
    write_status_metrics as write_status_metrics,
)
from .testbeds import (
    catalog_of as catalog_of,
    kept_calibration as kept_calibration,
    lanes_of as lanes_of,
    open_testbed as open_testbed,
    require_idle_ports as require_idle_ports,
    subsystem_of as subsystem_of,
)
