"""What an estimate is made of: an architecture, how its numbers are stored, the work and the machine. Plain values.

Symbols, after the field's use: B sequences in a batch, S prompt tokens, T tokens in the KV cache, L layers, h hidden,
q = heads * head_dim, d head size. A multiply-add counts two FLOP. GB and GB/s are 1e9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runner.estimate.kernels import Kernels


@dataclass(frozen=True)
class Attention:
    """One layer's attention."""

    heads: int
    kv_heads: int
    head_dim: int
    """Of queries and keys; for MLA the part without position and the rotary part together."""
    v_head_dim: int
    q_lora_rank: int = 0
    """MLA: size of the compressed query; 0 = queries are projected directly."""
    kv_lora_rank: int = 0
    """MLA: size of the cached latent; 0 = no MLA."""
    rope_dim: int = 0
    """MLA: rotary part, cached beside the latent and shared by all heads."""
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    """One learned sink for each head."""
    window: int = 0
    """Sliding window, tokens; 0 = all of the context."""


@dataclass(frozen=True)
class Mlp:
    """One layer's feed-forward part; with ``experts`` a mixture."""

    width: int
    """Intermediate size of the dense part, or of one expert."""
    gated: bool = True
    bias: bool = False
    experts: int = 0
    top_k: int = 0
    shared: int = 0
    """Experts that every token passes, each of ``width``."""
    shared_gate: bool = False
    """The shared experts' output is scaled by a gate of one column."""
    router_bias: bool = False


@dataclass(frozen=True)
class Layer:
    attention: Attention
    mlp: Mlp


@dataclass(frozen=True)
class Architecture:
    """A decoder as its ``config.json`` says it."""

    name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool = False
    """The output head is the input embedding."""
    positions: int = 0
    """Rows of a learned position table; 0 = rotary."""
    norm_bias: bool = False
    """Norms have a bias beside their weight (LayerNorm)."""
    source: str = ""
    """Where the figures come from."""
    notes: tuple[str, ...] = ()
    """What the reader should know: a field that was not understood, an assumption that was made."""


@dataclass(frozen=True)
class Precision:
    """How a kind of number is stored and computed with."""

    name: str
    """``bfloat16``, ``int4_g128``, ``q4_k``, …"""
    bits: float
    """Per element, scales and zeros included."""
    compute: str
    """Key of ``tflops`` whose peak bounds the arithmetic: weight-only formats compute in 16 bits."""


@dataclass(frozen=True)
class Work:
    """What is asked of the model."""

    batch: int
    """Sequences decoded together."""
    prompt: int
    """Tokens of each prompt."""
    output: int
    """Tokens generated for each."""
    weights: Precision
    """Of the linear layers; tables, norms, router and output head are stored as ``other``."""
    kv: Precision
    """Of the KV cache."""
    other: Precision
    """Embeddings, norms, output head, activations."""
    prefix_share: float = 0.0
    """Share of each prompt whose KV is found in a prefix cache, 0 to 1."""
    speculative: int = 0
    """Tokens drafted for each verification; 0 = none."""
    acceptance: float = 0.0
    """Probability that a drafted token is accepted, each on its own."""
    chunk: int = 0
    """Prompt tokens processed at a time; 0 = the whole prompt."""
    expert_skew: float = 0.0
    """0 = tokens choose experts evenly; 1 = all tokens choose the same."""
    head: Precision | None = None
    """Of the output head, and of the table that it shares with the embedding; None = as ``other``."""

    @property
    def head_stored(self) -> Precision:
        return self.head or self.other


@dataclass(frozen=True)
class Parallel:
    """How the model is spread over GPUs."""

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1

    @property
    def gpus(self) -> int:
        """Experts are spread over the GPUs of the other two, so they add none."""
        return self.tensor * self.pipeline


@dataclass(frozen=True)
class Machine:
    """One GPU, as the ``gpu`` group says it."""

    name: str
    bandwidth_gbps: float
    """Datasheet, 1e9 byte/s."""
    memory_bytes: int
    """What the driver reports where known, else the marketing figure times 1e9."""
    tflops: dict[str, float]
    """Dense datasheet peak by arithmetic type, 1e12 FLOP/s."""
    tdp_w: float = 0.0
    nvlink_gbps: float = 0.0
    """Both directions together."""
    pcie: str = ""
    """Generation and lanes: ``5 x16``; the link between GPUs without NVLink."""
    price_per_hour: float = 0.0
    """Money for an hour of one GPU; 0 = unknown."""

    @property
    def rated(self) -> bool:
        """A datasheet says how fast it is. Of a CPU none does."""
        return self.bandwidth_gbps > 0 and bool(self.tflops)


Level = Literal["ideal", "model", "measured"]


@dataclass(frozen=True)
class Efficiency:
    """How far reality stays from the datasheet. The defaults are the ideal roofline."""

    level: Level = "ideal"
    source: str = "the datasheet's rates, nothing else"
    """Where the constants come from."""
    bandwidth: float = 1.0
    """Share of the datasheet's bandwidth that large reads reach."""
    compute: float = 1.0
    """Share of the peak FLOP rate that a prefill's matrix products reach."""
    layer_us: float = 0.0
    """Fixed time of one layer and step: launches, small kernels, synchronisation."""
    all_reduce_us: float = 0.0
    """Fixed time of one all-reduce; two a layer and step where ``tensor`` > 1."""
    sequence_us: float = 0.0
    """Time of a step for each sequence in the batch: sampling, scheduling, detokenising."""
    request_us: float = 0.0
    """Fixed time of a request before its first token: network, tokenising, the step that is running."""
    prefills_ahead: float = 0.0
    """Prefills that a request waits for, per other sequence in the batch: requests come in bursts."""


@dataclass(frozen=True)
class Operator:
    """One kind of operation of a phase, on one GPU, over all its occurrences."""

    name: str
    """``qkv_proj``, ``attention``, ``out_proj``, ``router``, ``experts``, ``shared_experts``, ``mlp``, ``norms``,
    ``embedding``, ``lm_head``, ``window_attention``, ``all_reduce``, ``all_to_all``, ``stage_send``."""
    count: int
    """Occurrences in the phase (layers that have it)."""
    flops: float
    weight_bytes: float
    """Weights read."""
    kv_bytes: float
    """KV cache read and written."""
    activation_bytes: float
    """Activations read and written, where they go to memory."""
    compute: str
    """As ``Precision.compute``."""
    link_bytes: float = 0.0
    """Bytes sent to other GPUs by this one."""

    @property
    def bytes(self) -> float:
        """To and from device memory."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    @property
    def intensity(self) -> float:
        """FLOP per byte of device memory; 0 where no byte is moved."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Phase:
    """A prefill of one prompt batch, or one decode step, on one GPU of the group."""

    name: Literal["prefill", "decode"]
    operators: tuple[Operator, ...]

    @property
    def flops(self) -> float:
        return sum(operator.flops for operator in self.operators)

    @property
    def bytes(self) -> float:
        return sum(operator.bytes for operator in self.operators)


@dataclass(frozen=True)
class Memory:
    """What one GPU of the group must hold, bytes."""

    weights: int
    kv: int
    activations: int
    reserve: int
    """Kept free: the context, the allocator, the engine."""
    available: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.activations + self.reserve

    @property
    def fits(self) -> bool:
        return self.total <= self.available


@dataclass(frozen=True)
class Compared:
    """One figure of an estimate beside its measurement."""

    measured_by: str
    """An engine, or the variant that was measured."""
    source: str
    """The file that says so."""
    figure: str
    """``ttft_ms``, ``tpot_ms`` or ``tokens_per_s``."""
    theoretical: float
    """For the load that was measured: ``runner.estimate.beside``."""
    measured: float
    reason: str
    """Where most of the difference comes from."""
    levels: dict[str, float] = field(default_factory=dict)
    """The figure at every level that can be told, under the level's title; empty = only the estimate's own is."""

    @property
    def ratio(self) -> float:
        """Measured over theoretical."""
        return self.measured / self.theoretical


@dataclass(frozen=True)
class Estimate:
    """Everything that is told; ``metrics`` under the names that are filed."""

    architecture: Architecture
    work: Work
    parallel: Parallel
    machine: Machine
    efficiency: Efficiency
    memory: Memory
    prefill: Phase
    decode: Phase
    metrics: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """What is no number: ``bound_prefill``, ``bound_decode`` (``memory``, ``compute``, ``link``, ``overhead``)."""
    notes: tuple[str, ...] = ()
    compared: tuple[Compared, ...] = ()
    """Measurement beside theory, where one was given."""
    kernels: Kernels | None = None
    """Of the level ``measured``: what its times are made of."""

    @property
    def on_paper(self) -> Efficiency:
        """The level of what is worked out operator by operator: the estimate's own, ideal where that is measured."""
        return self.efficiency if self.kernels is None else Efficiency()
