"""The typed shape of a composed config: every group, every key, its type and its default.

Hydra validates YAML files and command-line overrides against these classes, so a misspelt key or a wrong
type is refused while composing. Ranges and choices are checked by ``runner.config.check``, and what needs a family's
arithmetic by ``runner.plan``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class Shape:
    """The work. Lengths are in tokens."""

    name: str = MISSING
    batch: int = 1
    context: int = 4096
    """Tokens already in the KV cache when a decode step runs."""
    prompt: int = 1024
    output: int = 128
    page: int = 16
    """Tokens per KV page."""
    group: int = 128
    """Weights that share one quantisation scale."""
    sweep: dict[str, Any] = field(default_factory=dict)
    """The option's own grid under ``-m``: override key → list of values. A value given by the user wins."""


@dataclass
class Model:
    """The architecture, as its ``config.json`` says it."""

    name: str = MISSING
    title: str = ""
    source: str = ""
    """Where the figures come from."""
    layers: int = MISSING
    hidden: int = MISSING
    heads: int = MISSING
    kv_heads: int = MISSING
    head_dim: int = MISSING
    intermediate: int = MISSING
    vocab: int = MISSING
    experts: int = 0
    top_k: int = 0
    """Experts active per token."""
    shared_experts: int = 0
    moe_intermediate: int = 0
    dense_layers: int = 0
    """First layers that are dense in a mixture-of-experts model."""
    router_bias: bool = False
    """One bias per expert in every router (DeepSeek-V3)."""
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    """Multi-head latent attention: size of the cached latent; 0 = not MLA."""
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    tied_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    gated_mlp: bool = True
    biases: bool = False
    """Every projection and norm has a bias (GPT-2)."""
    out_bias: bool = False
    """The attention's output projection has a bias."""
    mlp_bias: bool = False
    """Every projection of the feed-forward part has a bias."""
    attention_sinks: bool = False
    """One learned sink for each head (gpt-oss)."""
    shared_gate: bool = False
    """The shared experts' output is scaled by a gate of one column (Qwen2-MoE)."""
    max_positions: int = 0
    """Rows of a learned position table; 0 = rotary."""
    sliding_window: int = 0
    """Tokens that a windowed layer sees; 0 = no layer is windowed."""
    window_layers: list[int] = field(default_factory=list)
    """Numbers of the windowed layers, from 0; empty with ``sliding_window`` = all of them."""
    rope_theta: float = 10000.0
    """Base of the rotary frequencies; means nothing with learned positions."""
    rope_scaling: str = ""
    """How rotary positions differ from plain ones of ``rope_theta`` over the whole head: ``llama3``, ``yarn``,
    ``linear``, ``partial``, …; empty = they do not."""
    rope_factor: float = 1.0
    """What ``linear`` divides all frequencies by, and ``llama3`` the low ones."""
    rope_low_freq_factor: float = 1.0
    rope_high_freq_factor: float = 4.0
    """Of ``llama3``: frequencies that turn so often within ``rope_original_positions`` or less are divided, those that
    turn so often or more are left, and what lies between is something between."""
    rope_original_positions: int = 0
    """Positions that a ``llama3`` model was first trained on."""
    norm_eps: float = 1e-5
    """Added to the mean square (or variance) in every norm."""
    params_total: int = 0
    """Exact published parameter count."""
    config_json: str = ""
    """A Hugging Face ``config.json`` (or a GGUF file) that gives every other field of this group."""
    weights: str = ""
    """A GGUF or safetensors file, or the folder of a sharded model: gives every other field of this group, as
    ``config_json`` does, and the values of the weights to a family that reads them."""
    notes: list[str] = field(default_factory=list)
    """What the reader of ``config_json`` or ``weights`` did not understand or assumed."""


@dataclass
class Gpu:
    """The target. Rates are dense datasheet figures, 1e9 byte/s and 1e12 FLOP/s."""

    name: str = MISSING
    title: str = ""
    source: str = ""
    backend: str = "cuda"
    """``cuda``, ``host``, or ``auto`` (decided inside the job)."""
    arch: str = ""
    """``sm_90a``."""
    nvml_names: list[str] = field(default_factory=list)
    """Names the driver gives this part; how ``gpu=auto`` and the check of a named GPU recognise it."""
    sms: int = 0
    l2_mb: float = 0.0
    memory_gb: float = 0.0
    """Marketing gigabytes, 1e9 byte."""
    memory_mib: int = 0
    """What the driver reports, where seen."""
    bandwidth_gbps: float = 0.0
    tflops: dict[str, float] = field(default_factory=dict)
    """By arithmetic type: float32, float16, bfloat16, float8, int8, float4."""
    tdp_w: float = 0.0
    nvlink_gbps: float = 0.0
    """Both directions together; 0 = none."""
    pcie: str = ""
    price_per_hour: float = 0.0
    """Money for an hour of one GPU, in any currency; 0 = unknown."""


@dataclass
class Profiler:
    """What each field means: ``runner.profile.base.ProfileSettings``, which has the same defaults."""

    name: str = MISSING
    tools: list[str] = field(default_factory=list)
    steps: int = 10
    timeout_s: float = 300.0
    reports: str = "variant"
    trace: list[str] = field(default_factory=lambda: ["cuda", "nvtx", "osrt"])
    capture: str = "api"
    gpu_metrics: bool = False
    graph_trace: str = "node"
    sections: str = "speed_of_light"
    kernels: str = ""
    launch_skip: int = 0
    launch_count: int = 0
    replay: str = "kernel"
    interval_s: float = 0.1
    duration_s: float = 3.0


@dataclass
class Estimate:
    """What ``kernel=estimate`` works out, beside ``model``, ``gpu`` and ``shape``."""

    weights: str = "bfloat16"
    """How the linear layers are stored: ``runner.estimate.precision``."""
    kv: str = "bfloat16"
    """How the KV cache is stored."""
    other: str = "bfloat16"
    """Embeddings, norms, output head and activations."""
    head: str = ""
    """The output head, and a table that it shares with the embedding; empty = as ``other``."""
    tensor: int = 1
    """GPUs that share each layer."""
    pipeline: int = 1
    """Groups of GPUs that share the layers."""
    expert: int = 1
    """GPUs over which the experts are spread."""
    prefix_share: float = 0.0
    """Share of each prompt that a prefix cache holds."""
    speculative: int = 0
    """Tokens drafted for each verification."""
    acceptance: float = 0.7
    """Probability that a drafted token is accepted."""
    chunk: int = 0
    """Prompt tokens processed at a time; 0 = the whole prompt."""
    expert_skew: float = 0.0
    """0 = tokens choose experts evenly, 1 = all the same."""
    efficiency: str = "ideal"
    """``ideal``, ``model`` (the constants below), ``measured`` (by this GPU's own kernels), or a file that
    ``python -m runner.calibrate`` wrote."""
    kernels: str = ""
    """``measured``: a ``result.json`` or a folder of results of ``kernel=layer_ops``; empty = the store's, and where it
    has none they are measured."""
    bandwidth: float = 0.95
    """``model``: share of the datasheet's bandwidth."""
    compute: float = 0.5
    """``model``: share of the peak FLOP rate."""
    layer_us: float = 70.0
    """``model``: fixed time of a layer and step."""
    all_reduce_us: float = 4.0
    """``model``: fixed time of an all-reduce."""
    sequence_us: float = 0.0
    """``model``: time of a step for each sequence."""
    reserve_gb: float = 2.0
    """Memory of each GPU that the engine keeps for itself."""
    memory_share: float = 0.9
    """Share of the GPU's memory that may be used."""
    ttft_ms: float = 0.0
    """Target for the time to the first token; 0 = none."""
    tpot_ms: float = 0.0
    """Target for the time per output token; 0 = none."""
    measured: str = ""
    """What was measured of the same load, to stand beside the estimate: a ``result.json`` or its folder, ``store`` or
    ``run:<id>`` (runs of ``kernel=mini_llm``), or a CSV of measured loads (``runner/estimate/measured.py``)."""
    engine: str = ""
    """The engine whose rows of the CSV are taken; empty = every engine that has the load."""


@dataclass
class Ready:
    """How it is known that a server can take load; one of the three."""

    port: int = 0
    """A TCP port on this machine that accepts connections."""
    url: str = ""
    """Answers with a status below 400."""
    output: str = ""
    """Regular expression that a line of its output matches."""
    timeout_s: float = 120.0


@dataclass
class Command:
    """The program that ``kernel=command`` runs."""

    argv: list[str] = field(default_factory=list)
    """Program and arguments; no shell takes part."""
    shell: str = ""
    """A shell command line, instead of ``argv``."""
    name: str = ""
    """What its runs are called; empty = the program's file name."""
    folder: str = ""
    """Working directory; empty = the one the command is given in."""
    environment: dict[str, str] = field(default_factory=dict)
    warmup: int = 0
    """Runs that are not measured."""
    repeat: int = 1
    """Measured runs; of a server, measured runs of the load."""
    metrics: dict[str, str] = field(default_factory=dict)
    """Metric name → where the output has it: a regular expression with one group, or ``$.path.to.value`` in JSON."""
    ready: Ready = field(default_factory=Ready)
    load: list[str] = field(default_factory=list)
    """The client that loads a server: program and arguments. With it, ``argv`` is a server and runs until stopped."""
    stop_s: float = 10.0
    """A server has this long to end after SIGTERM."""


@dataclass
class MeasureHost:
    """Limits that replace the general ones on the host backend, where a kernel takes milliseconds to seconds."""

    modes: list[str] = field(default_factory=lambda: ["cold"])
    """A hot series says little on a CPU, where a kernel outlasts the flush by far."""
    min_samples: int = 3
    min_time_s: float = 0.02
    max_time_s: float = 1.0
    max_rsd: float = 0.05


@dataclass
class Measure:
    """What each field means: ``runner.measure.settings.MeasureSettings``, which has the same defaults; those that are
    no matter of a single process are explained here."""

    name: str = MISSING
    modes: list[str] = field(default_factory=lambda: ["cold", "hot"])
    warmup: int = 1
    min_samples: int = 10
    max_samples: int = 100_000
    min_time_s: float = 0.5
    max_time_s: float = 15.0
    max_rsd: float = 0.005
    settled: float = 0.05
    fixed: int = 0
    hide_latency: bool = True
    hot_batch_time_s: float = 0.1
    graph_batch_time_s: float = 0.01
    throttle_share: float = 0.9
    throttle_pause_s: float = 0.05
    lock_clocks: int = 0
    trials: int = 1
    """Processes that measure each variant, one after another: placement and allocation are noise that the samples of
    one process share."""
    crosscheck: bool = False
    """Record some cold steps after the timing, in a process of their own, and hold the kernels' own times against
    ``time_us``."""
    host: MeasureHost = field(default_factory=MeasureHost)


@dataclass
class Tracking:
    name: str = MISSING
    enabled: bool = True
    uri: str = ""
    """MLflow tracking URI; empty = ``sqlite:///<project>/mlruns/mlflow.db``."""
    every_s: float = 30.0
    """File finished results between experiments when this long has passed since the last time."""
    max_artifact_mb: float = 256.0
    """A larger file stays where it is; its path, size and hash are filed instead."""


@dataclass
class Param:
    """What one kernel parameter may be."""

    type: str = "int"
    """``int``, ``float`` or ``str``."""
    name: str = ""
    """Long name filed beside the letter: ``batch`` for ``B``."""
    min: Any = None
    max: Any = None
    choices: list[Any] = field(default_factory=list)
    multiple_of: Any = None
    """Like ``min`` and ``max`` a number, or an expression over the parameters: ``16``, ``heads``."""
    cap: Any = None
    """Largest value under ``scale=smoke``."""
    help: str = ""


@dataclass
class BufferSpec:
    """One device array of a family; ``runner.plan.model.Buffer`` is what becomes of it."""

    dims: list[Any] = MISSING
    """Arithmetic over the family's symbols, one entry per dimension: ``[B, H, T, D]``, ``["ceil_div(K, 2)"]``."""
    dtype: str = "float32"
    """An element type (``runner.plan.dtypes``), or a symbol that names one."""
    fill: str = "none"
    """``none``, ``zeros``, ``constant``, ``uniform``, ``integers``, or ``reference``: the array that the reference
    module's ``inputs(case, name)`` returns (a page table, sequence lengths). Or an expression over the family's symbols
    that gives one of them: ``"'reference' if file else 'uniform'"``."""
    low: Any = -1.0
    """``uniform`` and ``integers``: lower end, included."""
    high: Any = 1.0
    """``uniform`` and ``integers``: upper end, excluded."""
    value: Any = 0.0
    """``constant``: the value."""
    device: Any = 0
    """Position in the experiment's ``devices``; ``each``: one on every device, ``x_gpu0``, ``x_gpu1`` and so on, with
    contents of its own."""


@dataclass
class LaunchSpec:
    """One kernel launch of a family; ``runner.plan.model.Launch`` is what becomes of it."""

    function: str = MISSING
    grid: list[Any] = MISSING
    """One to three expressions, x first."""
    block: list[Any] = field(default_factory=lambda: [256])
    shared: Any = 0
    """Dynamic shared memory, bytes."""
    args: list[Any] = field(default_factory=list)
    """A buffer's name passes its address. Any other entry is an expression: an integer result goes by value as
    int64 (``long long``), a float one as float32; ``int32(expr)``, ``float32(expr)`` force a type."""
    device: int = 0


@dataclass
class CheckSpec:
    """One comparison with the reference; ``runner.plan.model.Check`` says what each field means.

    An output on ``each`` device makes a check for every one of them, ``name_gpu0`` and so on.
    """

    output: str = MISSING
    device: Any = None
    """Of an output on ``each`` device the one that is compared, by arithmetic; the check keeps its name. ``each``, or
    left out: all of them."""
    row_dims: int = 1
    row_cost: Any = 1
    """Arithmetic, like ``atol`` and ``rtol``."""
    atol: Any = 1e-5
    rtol: Any = 1e-4
    exact: bool = False
    zero_ok: bool = False
    varies: bool = False


@dataclass
class VariantSpec:
    """One implementation within a family; ``runner.plan.model.Variant`` is what becomes of it."""

    help: str = ""
    dtype: str = "float32"
    compute: str = "float32"
    """Or a symbol that names it."""
    launches: list[LaunchSpec] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    """Buffers every element of which is read once by a step; their sizes are the declared read bytes."""
    writes: list[str] = field(default_factory=list)
    bytes_read: Any = None
    """Arithmetic that replaces the sum over ``reads``; ``bytes(name)`` is a buffer's size."""
    bytes_written: Any = None
    traffic: str = ""
    """Why counters see other DRAM bytes than these, where they differ by more than 5 % far above the L2."""
    flops: Any = 0
    checks: dict[str, CheckSpec] = field(default_factory=dict)
    drift: str = ""
    """Check of another variant whose reference this one's output is also compared with (reported, never judged)."""
    report: dict[str, Any] = field(default_factory=dict)
    """Metric name → arithmetic."""
    timed: dict[str, str] = field(default_factory=dict)
    """Metric name → arithmetic over the symbols, ``report`` and ``time_us``, evaluated after the measurement."""
    require: dict[str, str] = field(default_factory=dict)
    """Expression that must hold for this variant → what to tell the user; otherwise the variant is SKIPPED."""


@dataclass
class Companion:
    """Another family beside this one, for a workload that needs a second model: its buffers, and its kernels."""

    family: str = ""
    """Option of ``kernel``; empty = there is none."""
    model: str = ""
    """Parameter of this family that names the other's model: an option of ``model``, or a file of weights. An empty
    value leaves the companion out."""
    params: dict[str, Any] = field(default_factory=dict)
    """Its parameter → arithmetic over those of this family; every other is as its own file says."""


@dataclass
class Kernel:
    """A family."""

    name: str = MISSING
    title: str = ""
    kind: str = "cuda"
    """``cuda`` (a family of kernels), ``command`` (a program of the section ``command``) or
    ``estimate`` (nothing is run)."""
    phase: str = MISSING
    shape_line: str = ""
    """What one run prints after its checks: ``kv quant shape B={B} T={T}``, symbols in braces."""
    source: str = ""
    """File in ``cuda_src/``, or a path relative to the YAML's own folder's ``cuda_src`` sibling for a user's family."""
    reference: str = ""
    """Dotted module, or path of a ``.py``; default ``runner.references.<name>``."""
    baseline: str = MISSING
    params: dict[str, Any] = field(default_factory=dict)
    """Letter → value, usually bound: ``B: ${shape.batch}``."""
    declare: dict[str, Param] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    """Further symbols by arithmetic, in order; may use ``sms``, ``l2_bytes`` and ``is_host`` of the target."""
    require: dict[str, str] = field(default_factory=dict)
    """Expression that must hold → message; otherwise the experiment is INVALID_CONFIG."""
    defines: dict[str, str] = field(default_factory=dict)
    """Macro → arithmetic; compiled in (a head size, say)."""
    flags: list[str] = field(default_factory=list)
    buffers: dict[str, BufferSpec] = field(default_factory=dict)
    prepare: list[LaunchSpec] = field(default_factory=list)
    """Untimed launches that fill, quantise or build tables; compiled without contraction."""
    variants: dict[str, VariantSpec] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    """``_target_`` of a registered workload class and its options; empty = launches as declared."""
    companion: Companion = field(default_factory=Companion)
    samples: int = 0
    """Steps that are enough, without a warm-up, where ``measure.fixed`` does not ask for others: each is long and has
    its own statistics. 0 = as ``measure`` says."""


@dataclass
class Scale:
    """Composed last: caps on every dimension of any shape or study."""

    name: str = MISSING
    shape: dict[str, int] = field(default_factory=dict)
    """``shape`` key → largest value."""
    model: dict[str, int] = field(default_factory=dict)
    params: bool = False
    """Also cap every kernel parameter at its declared ``cap``."""


@dataclass
class Constraint:
    require: str = MISSING
    """Expression over the kernel's parameters, ``shape``, ``model`` and ``estimate`` with their keys, and the names
    ``kernel`` and ``gpu``."""
    reason: str = MISSING


@dataclass
class Gate:
    """What a sweep must hold against the standards of its GPU (``python -m runner.baseline``)."""

    max_slowdown: Any = None
    """A time that is longer by more than this is too slow: ``3%``, or 0.03. null = there is no gate."""
    min_experiments: int = 1
    """The gate is closed when so many experiments are too slow."""


@dataclass
class Study:
    """A named sweep."""

    name: str = ""
    description: str = ""
    grid: dict[str, Any] = field(default_factory=dict)
    """Override key → list of values; all combinations."""
    zip: list[dict[str, Any]] = field(default_factory=list)
    """Each entry: override key → list; the lists of one entry are walked together."""
    constraints: list[Constraint] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    """Metrics the study is about; kept with its results."""
    gate: Gate = field(default_factory=Gate)


@dataclass
class Config:
    """One experiment as composed: a section per group, and what belongs to none."""

    kernel: Kernel = field(default_factory=Kernel)
    shape: Shape = field(default_factory=Shape)
    model: Model = field(default_factory=Model)
    gpu: Gpu = field(default_factory=Gpu)
    profiler: Profiler = field(default_factory=Profiler)
    measure: Measure = field(default_factory=Measure)
    tracking: Tracking = field(default_factory=Tracking)
    scale: Scale = field(default_factory=Scale)
    study: Study = field(default_factory=Study)
    command: Command = field(default_factory=Command)
    estimate: Estimate = field(default_factory=Estimate)
    variants: list[str] | None = None
    """Subset of the family's variants; null = all."""
    devices: list[int] = field(default_factory=lambda: [0])
    """Ordinals of this machine's GPUs, or of virtual host devices; ``gpu`` is the target they are compared with."""
    seed: int = 0
    """Of the inputs and of the sample of rows that is checked."""
    dry_run: bool = False
    """Print the plan and stop."""
    resume: bool = False
    """Leave out what an earlier command has measured: variants whose result PASSED with the same fingerprint."""
    retry: str = ""
    """``failed``: run those variants alone whose latest result with the same fingerprint failed."""
    sanitize: bool = False
    """Host backend: compile with the address sanitizer and shuffle the order of threads."""
    timeout_s: float = 600.0
    """Wall-clock limit of one variant, after compilation and once the device is free."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables set in the worker before the device is opened."""
    compare_to: str = ""
    """An earlier run that ``report.md`` compares this one with: its ``result.json``, or a folder that holds some."""
