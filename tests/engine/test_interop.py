"""Other people's modules: the same logits, loss and gradients, from parameters that were carried over."""

import copy
import functools
import inspect
import types
import warnings

import numpy as np
import optree
import pytest
import torch
from parameters import changed, draws
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

from handgrad import blocks, fast, interop, model
from handgrad import twin as twins
from handgrad.config import bert_base, gpt2_small, llama_like
from handgrad.ops import causal_mask

torch.set_num_threads(1)  # the models here are tiny

TOLERANCE = 1e-10
"""Of the largest entry of a gradient. The worst seen: 4e-11 in a db_K that is 0 by symmetry, else 5e-12."""


class Double:
    """The library torch in which float32 is float64: so transformers computes what it computes, but exactly.

    Its Llama squares, turns and takes the softmax in float32, whatever the precision of the parameters is.
    """

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture(scope="module")
def transformers():
    """The library, which must not look for anything elsewhere. Its import takes 3 seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        import transformers
        from transformers.models.llama import modeling_llama
        from transformers.models.mistral import modeling_mistral

        for module in (modeling_llama, modeling_mistral):
            patch.setattr(module, "torch", Double())
        yield transformers


# Modules with random parameters

SIZES = dict(vocab_size=13, hidden_size=12, num_attention_heads=2, num_hidden_layers=3)
NO_ENDS = dict(bos_token_id=None, eos_token_id=None)
MODELS = {
    "GPT-2": ("GPT2LMHeadModel", dict(n_positions=9)),
    "GPT-2, another width, head and activation": (
        "GPT2LMHeadModel",
        dict(n_positions=7, n_inner=10, activation_function="relu", tie_word_embeddings=False),
    ),
    "GPT-2, padding": ("GPT2LMHeadModel", dict(n_positions=9, pad_token_id=3, layer_norm_epsilon=0.1)),
    "BERT": ("BertForMaskedLM", dict(intermediate_size=10, max_position_embeddings=9)),
    "BERT, another head, activation and padding": (
        "BertForMaskedLM",
        dict(intermediate_size=10, max_position_embeddings=7, tie_word_embeddings=False)
        | dict(hidden_act="gelu_new", type_vocab_size=3, pad_token_id=5, layer_norm_eps=0.1),
    ),
    "BERT, sentences too": ("BertForPreTraining", dict(intermediate_size=10, max_position_embeddings=9)),
    "Llama": ("LlamaForCausalLM", dict(intermediate_size=10)),
    "Llama, grouped queries": (
        "LlamaForCausalLM",
        dict(intermediate_size=10, hidden_size=24, num_attention_heads=6, num_key_value_heads=2)
        | dict(rope_parameters={"rope_type": "default", "rope_theta": 100.0}, tie_word_embeddings=True),
    ),
    "Llama, biases and padding": (
        "LlamaForCausalLM",
        dict(intermediate_size=10, num_attention_heads=3, num_key_value_heads=1, pad_token_id=4)
        | dict(attention_bias=True, rms_norm_eps=0.1),
    ),
    "Llama, GELU": ("LlamaForCausalLM", dict(intermediate_size=10, hidden_act="gelu")),
    "Mistral": ("MistralForCausalLM", dict(intermediate_size=10, num_key_value_heads=1, sliding_window=None)),
}


def made(transformers, name, attention="sdpa", seed=0, **changes):
    """A model of the table in float64, every parameter random."""
    kind, own = MODELS[name]
    kind = getattr(transformers, kind)
    settings = SIZES | NO_ENDS | own | dict(attn_implementation=attention) | changes
    module = kind(kind.config_class(**settings))
    return randomized(module, seed).eval()


def randomized(module, seed=0):
    """The module in float64, every parameter drawn anew: no γ is 1, no bias 0, and logits are not small."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype))
            if p.ndim == 2 and "emb" not in name and "wte" not in name:
                p /= 12**0.5
            if p.ndim == 1 and "weight" in name:
                p.mul_(0.5).add_(1)
    return module


def drawn(config, seed=1, B=3, T=7):
    """Random tokens, which repeat; rows end in padding, if there is one, and a causal one begins with it."""
    rng = np.random.default_rng(seed)
    tokens, targets = rng.integers(0, config.V, (2, B, T))
    targets[rng.random((B, T)) < 0.3] = config.ignore_index
    if config.pad is not None:
        tokens[tokens == config.pad] = config.V - 1  # which is never the padding here
        tokens[1, 4:] = tokens[2, 6:] = config.pad
        if config.kind == "decoder":
            tokens[2, :2] = config.pad
        targets[tokens == config.pad] = config.pad
    segments = {"segments": rng.integers(0, config.segments, (B, T))} if config.segments else {}
    return {"tokens": tokens, "target_out": targets} | segments


def told(config, batch):
    """The same batch as transformers wants it: the arguments of a call."""
    given = {"input_ids": batch["tokens"]}
    if config.pad is not None:
        given["attention_mask"] = (batch["tokens"] != config.pad).astype(int)
    if config.segments:
        given["token_type_ids"] = batch["segments"]
    return {name: torch.as_tensor(array) for name, array in given.items()}


def by_torch(module, config, batch):
    """Logits and loss of a model of transformers, which has its gradients then."""
    module.zero_grad()
    out = module(**told(config, batch))
    logits = out["prediction_logits"] if "prediction_logits" in out else out["logits"]
    loss = F.cross_entropy(logits.flatten(0, 1), torch.as_tensor(labels(config, batch)).flatten())
    loss.backward()
    return logits.detach().numpy(), float(loss.detach())


def labels(config, batch):
    """The targets as transformers wants them."""
    return np.where(batch["target_out"] == config.ignore_index, -100, batch["target_out"])


def compare(module, reader=interop, draw_keep=lambda: None):
    """Assert that logits, loss and every gradient are the same; returns the worst relative error.

    Only logits at padding are not compared: what a query sees that may see nothing is not defined.
    """
    asked, (config, params) = interop.read(module)[0], reader.read(module)
    batch = drawn(asked)
    logits, loss = by_torch(module, asked, batch)
    wanted, worst = reader.read_gradients(module), 0.0
    seen = np.ones(logits.shape[:2], bool) if asked.pad is None else batch["tokens"] != asked.pad
    for engine in (model, fast):
        got, _ = engine.forward(params, config, batch, draw_keep())
        error = np.abs(got - logits)[seen].max() / np.abs(logits).max()
        assert error <= TOLERANCE, f"logits: relative error {error:.1e}"
        by_hand, grads = engine.loss_and_gradients(params, config, batch, draw_keep())
        assert abs(by_hand - loss) <= TOLERANCE * loss, "loss"
        worst = max(worst, error, abs(by_hand - loss) / loss, twins.compare(grads, wanted, TOLERANCE))
    return worst


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_loss_and_every_gradient_are_those_of_transformers(name, attention, transformers):
    compare(made(transformers, name, attention))


def test_a_bias_of_the_head_is_read_too(transformers):
    module = made(transformers, "GPT-2")
    module.lm_head.bias = nn.Parameter(torch.arange(13).double())
    compare(module)
    assert "b_out" in interop.read(module)[1]["head"]


DROPOUT = {
    "GPT-2": dict(embd_pdrop=0.3, attn_pdrop=0.3, resid_pdrop=0.3),
    "GPT-2, padding": dict(embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.3),
    "BERT": dict(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.0),
    "BERT, sentences too": dict(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3),
    "Llama, grouped queries": dict(attention_dropout=0.3),
}


@pytest.mark.parametrize("name", DROPOUT)
def test_dropout_acts_at_the_same_sites(name, transformers, monkeypatch):
    """What handgrad draws at each site, in its order, is what transformers is given for its own."""
    keep = draws(2, 0.3)

    def dropout(x, p=0.5, training=True, inplace=False):
        return x * torch.as_tensor(keep(tuple(x.shape))) / (1 - p) if training and p else x

    monkeypatch.setattr(F, "dropout", dropout)
    compare(made(transformers, name, "eager", **DROPOUT[name]).train(), draw_keep=lambda: draws(2, 0.3))


def test_the_configurations_are_those_of_the_publications(transformers):
    sizes = dict(V=13, D=12, H=2, N=3)
    for name, wanted in {
        "GPT-2": gpt2_small(**sizes, F=48, T_max=9),
        "BERT": bert_base(**sizes, F=10, T_max=9),
        "Llama": llama_like(**sizes, F=10, H_kv=2, eps=1e-6),
    }.items():
        assert interop.read(made(transformers, name))[0] == wanted


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT"])
def test_labels_are_shifted_there_and_targets_here_but_for_bert(name, transformers):
    """Its own loss moves the labels by one, and is taken in float32."""
    module = made(transformers, name)
    config, params = interop.read(module)
    batch = drawn(config)
    wanted = labels(config, batch)
    if name != "BERT":
        tokens, wanted = batch["tokens"], batch["tokens"]
        batch["target_out"] = np.concatenate([tokens[:, 1:], np.full((3, 1), -100)], axis=1)
    loss, _ = model.loss_and_gradients(params, config, batch)
    own = module(**told(config, batch), labels=torch.as_tensor(wanted)).loss
    assert float(own.detach()) == pytest.approx(loss, rel=1e-12 if name == "BERT" else 1e-6)


@pytest.mark.parametrize("name", ["GPT-2", "BERT", "Llama"])
def test_parameters_keep_their_precision(name, transformers):
    module = made(transformers, name).float()
    config, params = interop.read(module)
    batch = drawn(config)
    by_torch(module, config, batch)
    loss, grads = model.loss_and_gradients(params, config, batch)
    wanted = interop.read_gradients(module)
    assert {leaf.dtype for leaf in optree.tree_leaves((params, grads, wanted))} == {np.dtype("float32")}
    twins.compare(grads, wanted, 1e-2)
    with pytest.raises(ValueError, match=r"^dtype: expected float32 or float64.*got \['torch.bfloat16'\]"):
        interop.read(module.bfloat16())


# Modules of PyTorch: their blocks, and a whole model around them

B, S, T, D, H, FF = 3, 7, 5, 12, 3, 10
NORMS = {"post": False, "pre": True}
ACTS = {"relu": "relu", "gelu": F.gelu, "gelu_tanh": nn.GELU(approximate="tanh"), "silu": F.silu}
SAME_ACTS = F.relu, torch.relu, nn.ReLU(), nn.GELU(), nn.SiLU()
"""An activation is a function or a module."""


def torch_module(kind, norm="post", activation="relu", bias=True, final=True, layers=2, seed=0, **changes):
    """A module of torch.nn in float64 with random parameters, without dropout."""
    told = dict(d_model=D, nhead=H, dim_feedforward=FF, dropout=0.0, batch_first=True, bias=bias)
    told |= dict(activation=ACTS.get(activation, activation), norm_first=NORMS[norm]) | changes
    if kind == "Transformer":
        told = dict(num_encoder_layers=layers, num_decoder_layers=layers + 1) | told
        with warnings.catch_warnings():  # of a shortcut of evaluation that it cannot take
            warnings.filterwarnings("ignore", "enable_nested_tensor")
            return randomized(nn.Transformer(**told), seed)
    layer = getattr(nn, kind if kind.endswith("Layer") else f"{kind}Layer")(**told)
    if kind.endswith("Layer"):
        return randomized(layer, seed)
    more = {"enable_nested_tensor": False} if kind == "TransformerEncoder" else {}
    norm = nn.LayerNorm(D, changes.get("layer_norm_eps", 1e-5), bias=bias) if final else None
    return randomized(getattr(nn, kind)(layer, layers, norm, **more), seed)


def stack(name, params, x, told, **given):
    """One stack of what `read` gives, with blocks: y, cache."""
    block, caches, normed = getattr(blocks, f"{name}_block"), [], None
    for own in params[name]:
        x, cache = block(x, params=own, **given, **told)
        caches.append(cache)
    if f"{name}_norm" in params:
        x, normed = blocks.normalize(x, params[f"{name}_norm"], told["eps"])
    return x, (caches, normed)


def stack_backward(name, dy, cache):
    """dx, dmemory (0 if there is none), grads of the stack."""
    caches, normed = cache
    grads, dmemory = {name: []}, 0
    if normed:
        dy, grads[f"{name}_norm"] = blocks.normalize_backward(dy, normed)
    for own in reversed(caches):
        dy, *of_memory, grad = getattr(blocks, f"{name}_block_backward")(dy, own)
        dmemory, grads[name] = dmemory + sum(of_memory), [grad, *grads[name]]
    return dy, dmemory, grads


def by_blocks(told, params, x, memory, dy, hidden):
    """y, dx, dmemory and the gradients of params, of one or two stacks; memory is the input of an encoder.

    hidden (B, S): positions of the memory that are not seen; the decoder is causal.
    """
    seen, grads, encoded = ~hidden[:, None, None, :], {}, None
    y = source = memory
    if "encoder" in params:
        y, encoded = stack("encoder", params, source, told, mask=seen)
    if "decoder" in params:
        given = {"memory": y, "mask": causal_mask(T), "memory_mask": seen}
        y, decoded = stack("decoder", params, x, told, **given)
        dx, dy, grads = stack_backward("decoder", dy, decoded)
    if encoded:
        dy, _, own = stack_backward("encoder", dy, encoded)
        grads |= own
    return {"y": y, "dmemory": dy, "params": grads} | ({"dx": dx} if "decoder" in params else {})


def compare_blocks(module, reader=interop):
    """Assert that a module of PyTorch and the blocks have one output, and every gradient the same."""
    rng, kind = np.random.default_rng(3), type(module).__name__
    x, memory, dy = (rng.standard_normal((B, n, D)) for n in (T, S, S if "Encoder" in kind else T))
    hidden = np.arange(S) >= np.array([S, S - 1, S - 3])[:, None]
    masks = {"tgt_mask": torch.as_tensor(~causal_mask(T)), "memory_key_padding_mask": torch.as_tensor(hidden)}
    of_source = {"src_key_padding_mask": torch.as_tensor(hidden)}
    own = {name: torch.tensor(array, requires_grad=True) for name, array in (("x", x), ("memory", memory))}
    module.zero_grad()
    if "Encoder" in kind:
        y = module(own["memory"], **of_source)
    elif "Decoder" in kind:
        y = module(own["x"], own["memory"], **masks)
    else:
        y = module(own["memory"], own["x"], **masks, **of_source)
    y.backward(torch.as_tensor(dy))
    (told, params), grads = reader.read(module), reader.read_gradients(module)
    if kind.endswith("Layer"):
        name = "decoder" if "Decoder" in kind else "encoder"
        params, grads = {name: [params]}, {name: [grads]}
    wanted = {"y": y.detach(), "params": grads}
    wanted |= {f"d{name}": given.grad for name, given in own.items() if given.grad is not None}
    got = by_blocks(told, params, x, memory, dy, hidden)
    if all(own.bias is None for own in module.modules() if isinstance(own, nn.LayerNorm)):  # no β is there
        zero = lambda path, leaf: 0 * leaf if path[-1] == "beta" else leaf  # noqa: E731
        got = optree.tree_map_with_path(zero, got)
    return twins.compare(got, optree.tree_map(np.asarray, wanted), TOLERANCE)


KINDS = [f"Transformer{kind}" for kind in ("EncoderLayer", "DecoderLayer", "Encoder", "Decoder", "")]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_those_of_torch(kind, norm, bias):
    more = SAME_ACTS if kind == "TransformerEncoderLayer" else ()
    for number, activation in enumerate((*ACTS, *more)):
        if kind == "Transformer" and activation == "gelu_tanh":
            continue  # the two stacks differ: see below
        compare_blocks(torch_module(kind, norm, activation, bias, final=number % 2 == 0))


def test_an_activation_that_is_a_module_is_lost_in_the_blocks_of_a_decoder():
    """A copied nn.TransformerDecoderLayer computes ReLU (PyTorch 2.13); `read` tells what is computed."""
    gelu = nn.GELU(approximate="tanh")
    layer = torch_module("TransformerDecoderLayer", activation=gelu)
    assert interop.read(layer)[0]["activation"] == "gelu_tanh"
    assert interop.read(copy.deepcopy(layer))[0]["activation"] == "relu"
    assert interop.read(torch_module("TransformerEncoder", activation=gelu))[0]["activation"] == "gelu_tanh"
    decoder = torch_module("TransformerDecoder", activation=gelu)
    assert interop.read(decoder)[0]["activation"] == "relu"
    compare_blocks(decoder)
    with pytest.raises(ValueError, match="^encoder, decoder: expected the same settings in both, got"):
        interop.read(torch_module("Transformer", activation=gelu))


# There and back


@pytest.mark.parametrize("name", [*MODELS, *KINDS])
def test_what_is_written_is_read_again(name, transformers):
    source = made(transformers, name, seed=1) if name in MODELS else torch_module(name, bias=False)
    module = made(transformers, name, seed=2) if name in MODELS else torch_module(name, bias=False, seed=2)
    _, params = interop.read(source)
    before = interop.read(module)[1]
    assert interop.write(params, module) is module
    again = interop.read(module)[1]
    for old, leaf, wanted in zip(*map(optree.tree_leaves, (before, again, params)), strict=True):
        assert np.array_equal(leaf, wanted) and (not np.array_equal(leaf, old) or not wanted.any())
    if name in MODELS:
        batch = drawn(interop.read(module)[0])
        config = interop.read(module)[0]
        assert np.array_equal(by_torch(module, config, batch)[0], by_torch(source, config, batch)[0])


W_OUT, W_1 = ("head", "W_out"), ("feed_forward", "W_1")
BETA, HEADED = ("feed_forward_norm", "beta"), "GPT-2, another width, head and activation"
NOT_WRITTEN = [  # a module, the place of a parameter, what becomes of it, and what is said
    (HEADED, ("head",), lambda head: None, "params: expected the leaves .*'W_out'.* got"),
    (HEADED, W_OUT, lambda W: W.T, r'params\["head"\]\["W_out"\]: expected shape \(12, 13\), got \(13, 12\)'),
    (None, BETA, lambda beta: beta + 1, r'params\["feed_forward_norm"\]\["beta"\]: expected 0, .* has none'),
] + [
    (None, W_1, change, rf'params\["feed_forward"\]\["W_1"\]: expected {got}')
    for change, got in (
        (lambda W: W * np.nan, r"finite numbers, got \[nan\]"),
        (lambda W: W / 0, "finite numbers, got"),
        (lambda W: W + 1j, "real numbers, got complex128"),
        (lambda W: W > 0, "real numbers, got bool"),
    )
]


@pytest.mark.parametrize(("name", "path", "change", "message"), NOT_WRITTEN)
def test_what_does_not_fit_or_is_no_finite_real_number_is_not_written(
    name, path, change, message, transformers
):
    module = made(transformers, name) if name else torch_module("TransformerEncoderLayer", bias=path != BETA)
    _, params = interop.read(module)
    before = copy.deepcopy(module.state_dict())
    with np.errstate(all="ignore"):
        wrong = changed(params, path, change(functools.reduce(dict.get, path, params)))
    with pytest.raises(ValueError, match=f"^{message}"):
        interop.write(wrong, module)
    assert all(torch.equal(before[name], p) for name, p in module.state_dict().items())


def test_a_tensor_that_requires_a_gradient_is_written():
    layer = torch_module("TransformerEncoderLayer")
    _, params = interop.read(layer)
    twice = 2 * params["feed_forward"]["W_1"]
    interop.write(changed(params, W_1, torch.from_numpy(twice).requires_grad_()), layer)
    assert np.array_equal(interop.read(layer)[1]["feed_forward"]["W_1"], twice)


def shared_layer(module):
    module.model.layers[1] = module.model.layers[0]


def shared_weight(module):
    module.model.layers[0].self_attn.k_proj.weight = module.model.layers[0].self_attn.v_proj.weight


@pytest.mark.parametrize("share", [shared_layer, shared_weight])
def test_a_parameter_in_two_places_is_refused(share, transformers):
    """Its gradient in torch is the sum of both; here each place has its own, and may get its own value."""
    module = made(transformers, "Llama")
    share(module)
    with pytest.raises(ValueError, match=r"weight: expected a parameter of one layer, got one that several"):
        interop.read(module)


@pytest.mark.parametrize("how", [lambda m: prune.l1_unstructured(m, "weight", 0.5), nn.utils.weight_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_weights_that_are_computed_from_others_are_refused(how):
    module = torch_module("TransformerEncoder")
    how(module.layers[0].linear1)
    with pytest.raises(ValueError, match=r"^layers.0.linear1.weight: expected a parameter, got what pruning"):
        interop.read(module)


# Wrong readings, each of which the comparison must refute


def edited(*changes):
    """The module `interop` with other words in its source."""
    source = inspect.getsource(interop)
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    wrong = types.ModuleType("handgrad.wrong_interop")
    wrong.__package__ = "handgrad"
    exec(compile(source, "wrong_interop", "exec"), vars(wrong))
    return wrong


HALVES = ".swapaxes(-1, -2).reshape(place.shape)"
TURNED = ".swapaxes(-1, -2)[..., ::-1, :, :].reshape(place.shape)"
LAYER = 'at(layer.weight) if kind == "Conv1D" else at(layer.weight).T'
SQUARE = "len(set(layer.weight.shape)) == 1"
PLAIN = f"at(layer.weight) if {SQUARE} else at(layer.weight).T"
TURNED_CONV1D = f'at(layer.weight) if kind == "Conv1D" and not {SQUARE} else at(layer.weight).T'
GATED = 'name: f"mlp.{name}_proj" for name in ("gate", "up", "down")'
CROSSED = '"gate": "mlp.up_proj", "up": "mlp.gate_proj", "down": "mlp.down_proj"'
CUT, CUT_b = "np.split(W, len(names), axis=1)", "np.split(b, len(names))"
COMBED, COMBED_b = (
    "[W[:, n::3] for n in (0, 1, 2)] if names[2:] else [W]",
    "[b[n::3] for n in (0, 1, 2)] if names[2:] else [b]",
)
GRADIENT = "if p.grad is None else p.grad)"
PAD = ('"pad": c.pad_token_id', '"pad": None')


def exchanged(one, other):
    """The edits by which two words change places."""
    return (one, "@"), (other, one), ("@", other)


HALF = ".reshape(place.shape)"
EPS, TWICE = "return found.pop()", "return 2 * found.pop()"
BIASED, GROUPED_HEADS = "Llama, biases and padding", "Llama, grouped queries"
ENCODER, DECODER = "TransformerEncoder", "TransformerDecoder"
SELF, CROSS = '{"self_attention": layer.', '["cross_attention"] = layer.'
ENDS = '"bert.embeddings.LayerNorm"', '"cls.predictions.transform.LayerNorm"'

# What is wrong: the module that shows it, and the edits of `interop`.
WRONG = {
    "halves are left as halves": ("Llama", (HALVES, HALF)),
    "halves of grouped heads are left": (GROUPED_HEADS, (HALVES, HALF)),
    "pairs are taken for halves": ("Llama", ("-1, 2, K // 2)", "-1, K // 2, 2)")),
    "pairs among queries only": ("Llama", ('name[-1] in "QK"', 'name[-1] in "Q"')),
    "pairs among values too": ("Llama", ('name[-1] in "QK"', 'name[-1] in "QKV"')),
    "pairs across heads": ("Llama", ('["self_attention"], K)', '["self_attention"], 2 * K)')),
    "biases are left as halves": (BIASED, ('name[-1] in "QK"', 'name in ("W_Q", "W_K")')),
    "heads from last to first": (GROUPED_HEADS, (HALVES, TURNED)),
    "gate and up": ("Llama", (GATED, CROSSED)),
    "another gate": ("Llama, GELU", ('"gelu": "geglu"', '"gelu": "swiglu"')),
    "another base": (GROUPED_HEADS, ('rotary_base=rope["rope_theta"]', "rotary_base=10000.0")),
    "norms of Llama": ("Llama", *exchanged('"input_layernorm"', '"post_attention_layernorm"')),
    "another ε of Llama": ("Llama", (EPS, TWICE)),
    "Llama, not transposed": ("Llama", (LAYER, PLAIN)),
    "Llama, no padding": (BIASED, PAD),
    "Q and K of GPT-2": ("GPT-2", ('"Q K V": "attn.c_attn"', '"K Q V": "attn.c_attn"')),
    "V and K of GPT-2": ("GPT-2", ('"Q K V": "attn.c_attn"', '"Q V K": "attn.c_attn"')),
    "Q, K, V head by head": ("GPT-2", (CUT, COMBED)),
    "biases head by head": ("GPT-2", (CUT_b, COMBED_b)),
    "GPT-2, transposed": ("GPT-2", (LAYER, TURNED_CONV1D)),
    "norms of GPT-2": ("GPT-2", *exchanged('"ln_1"', '"ln_2"')),
    "the other GELU": ("GPT-2", ('"gelu_new": "gelu_tanh"', '"gelu_new": "gelu"')),
    "another ε of GPT-2": ("GPT-2, padding", (EPS, TWICE)),
    "GPT-2, no padding": ("GPT-2, padding", PAD),
    "Q and K of BERT": ("BERT", *exchanged('"attention.self.query"', '"attention.self.key"')),
    "V and O of BERT": ("BERT", *exchanged('"attention.self.value"', '"attention.output.dense"')),
    "norms of BERT": ("BERT", *exchanged('"attention.output.LayerNorm"', '"output.LayerNorm"')),
    "norms of its ends": ("BERT", *exchanged(*ENDS)),
    "BERT, not transposed": ("BERT", (LAYER, PLAIN)),
    "BERT, no padding": ("BERT", PAD),
    "Q and K of torch": (ENCODER, ('b, "Q K V")', 'b, "K Q V")')),
    "V and K of torch": (DECODER, ('b, "Q K V")', 'b, "Q V K")')),
    "torch, not transposed": (DECODER, (LAYER, PLAIN)),
    "norms of torch": (DECODER, ('f"norm{number}", at)', 'f"norm{number % 3 + 1}", at)')),
    "attentions of torch": (
        DECODER,
        (f"{SELF}self_attn", f"{SELF}multihead_attn"),
        (f"{CROSS}multihead_attn", f"{CROSS}self_attn"),
    ),
    "pre and post": (ENCODER, ('"pre" if layer.norm_first', '"pre" if not layer.norm_first')),
    "another activation": (ENCODER, ('F.relu: "relu"', 'F.relu: "silu"')),
    "another ε of torch": (ENCODER, (EPS, TWICE)),
    "values for gradients": ("Transformer", (GRADIENT, "if p.grad is None else p)")),
    "gradients twice": ("BERT", (GRADIENT, "if p.grad is None else 2 * p.grad)")),
    "the table is not in the head too": ("GPT-2", ('del tree["head"]["W_out"]', "tied = False")),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_reading_is_refuted(what, transformers):
    name, *changes = WRONG[what]
    wrong = edited(*changes)
    refute = compare if name in MODELS else compare_blocks
    module = made(transformers, name) if name in MODELS else torch_module(name, layer_norm_eps=0.1)
    refute(module)
    said = "relative error|^loss$|expected the tree|several layers share|as the configuration says"
    with pytest.raises((AssertionError, ValueError), match=said):
        refute(module, wrong)


# What handgrad cannot say


def rope(**changes):
    return dict(rope_parameters={"rope_type": "default", "rope_theta": 1e4} | changes)


UNFIT = [  # a module, settings of it, and what is named
    ("GPT-2", dict(scale_attn_weights=False), "config.scale_attn_weights: expected True, got False"),
    ("GPT-2", dict(scale_attn_by_inverse_layer_idx=True), "config.scale_.*_layer_idx: expected False, got"),
    ("GPT-2", dict(add_cross_attention=True), "config.add_cross_attention: expected False, got True"),
    ("GPT-2", dict(activation_function="quick_gelu"), "config.activation_function: .* got quick_gelu"),
    ("GPT-2", dict(resid_pdrop=0.2), "dropout: expected one probability, .* got .*0.1.*0.2"),
    ("BERT", dict(type_vocab_size=0), "config.type_vocab_size: expected at least 1, got 0"),
    ("BERT", dict(is_decoder=True), "config.is_decoder: expected False, got True"),
    ("BERT", dict(position_embedding_type="relative_key"), "config.position_.*: expected absolute, got rel"),
    ("BERT", dict(hidden_act="tanh"), "config.hidden_act: expected one of .*gelu.* got tanh"),
    ("BERT", dict(hidden_dropout_prob=0.2), "dropout: expected one probability, .* got .*0.2"),
    ("Llama", dict(hidden_act="relu"), "config.hidden_act: expected one of .*silu.* got relu"),
    ("Llama", dict(mlp_bias=True), "config.mlp_bias: expected False, got True"),
    ("Llama", dict(head_dim=8), "config.head_dim: expected 6, got 8"),
    ("Llama", rope(rope_type="linear", factor=2.0), "config.rope_parameters: expected .*, got .*linear"),
    ("Llama", rope(partial_rotary_factor=0.5), "config.rope_parameters: expected .* got .*partial"),
    ("Llama", dict(num_attention_heads=4), r"D: expected a multiple of 2 H = 8 for rotary, got 12"),
    ("Mistral", dict(sliding_window=4), "config.sliding_window: expected None, got 4"),
    ("TransformerEncoderLayer", dict(activation=torch.tanh), "activation: expected relu, gelu or silu"),
    ("TransformerDecoder", dict(activation=torch.tanh), "activation: expected relu, gelu or silu"),
]


@pytest.mark.parametrize(("name", "changes", "message"), UNFIT)
def test_what_config_cannot_say_is_refused(name, changes, message, transformers):
    module = made(transformers, name, **changes) if name in MODELS else torch_module(name, **changes)
    for function in (interop.read, interop.read_gradients, lambda module: interop.write({}, module)):
        with pytest.raises(ValueError, match=f"^{message}"):
            function(module)


def of_class(make, *args, **named):
    """A change: what the class makes stands there."""
    return lambda module: make(*args, **named)


def ones(*shape):
    return lambda module: nn.Parameter(torch.ones(*shape).double())


OWN, MLP, LINEAR = "self_attn", "transformer.h.1.mlp", of_class(nn.Linear, 2, 2)
ATTENTION = functools.partial(of_class, nn.MultiheadAttention, D)
TRANSFORMED = "cls.predictions.transform.transform_act_fn"
LAYER_OF_DECODER = "TransformerDecoderLayer"
SCALING = "model.layers.0.self_attn.scaling"
NO_WEIGHT = of_class(nn.LayerNorm, 12, elementwise_affine=False)
ONE_EPS, ONE_P = "ε of the norms: expected one number, got .*0.5", "dropout: expected one probability"
WIDE = of_class(nn.LayerNorm, (5, D))
ALTERED = [  # a module, the path of what is altered, the new value or what makes it, and what is named
    (BIASED, "model.layers.1.self_attn.o_proj.bias", None, r'params: expected .*"b_O"'),
    ("GPT-2", f"{MLP}.extra", LINEAR, f"{MLP}.extra.weight: expected no parameter"),
    ("GPT-2", f"{MLP}.c_fc", of_class(nn.Bilinear, 2, 2, 2), "mlp.c_fc: expected a norm, a table, or"),
    ("GPT-2", "transformer.ln_f", NO_WEIGHT, "transformer.ln_f.elementwise_affine: expected True, got False"),
    ("GPT-2", f"{MLP}.c_fc.weight", ones(12, 9), r'params.*"W_1".: expected shape'),
    ("GPT-2", "lm_head.weight", nn.Parameter(torch.ones(13, 12)), "dtype: expected float32 or .*32"),
    ("GPT-2", f"{MLP}.act", of_class(nn.Tanh), f"{MLP}.act: expected gelu_tanh, as .* Tanh"),
    ("BERT", TRANSFORMED, of_class(nn.ReLU), f"{TRANSFORMED}: expected gelu, as"),
    ("Llama", "model.layers.2.mlp.act_fn", of_class(nn.GELU), "model.layers.2.mlp.act_fn: expected silu, as"),
    ("Llama", SCALING, 1.0, f"{SCALING}: expected 0.4.*got 1.0"),
    ("Llama", SCALING, 0, f"{SCALING}: expected 0.4.*got 0"),
    (ENCODER, "norm", WIDE, r"norm.normalized_shape: expected the last axis alone, got \(5, 12\)"),
    (LAYER_OF_DECODER, f"{OWN}.add_zero_attn", True, "add_zero_attn: expected False, got True"),
    (LAYER_OF_DECODER, OWN, ATTENTION(H, kdim=5, vdim=D), r"kdim, vdim: expected 12, got \(5, 12\)"),
    (LAYER_OF_DECODER, OWN, ATTENTION(H, add_bias_kv=True), f"{OWN}.bias_k: expected no parameter"),
    (LAYER_OF_DECODER, OWN, ATTENTION(4), r"nhead: expected one number, got \{3, 4\}"),
    (LAYER_OF_DECODER, "norm2.eps", 0.5, ONE_EPS),
    (LAYER_OF_DECODER, "dropout2.p", 0.5, ONE_P),
    (ENCODER, "norm.eps", 0.5, ONE_EPS),
    ("GPT-2", "transformer.h.1.ln_2.eps", 0.5, ONE_EPS),
    ("Llama", "model.norm.variance_epsilon", 0.5, ONE_EPS),
    (ENCODER, "layers.1.norm_first", True, "layers: expected the same settings in all, got"),
    (DECODER, "layers.1", LINEAR, "layers: expected all of the class TransformerDecoderLayer, got .*Linear"),
    ("Transformer", "encoder", LINEAR, "custom_encoder, custom_decoder: expected Transf.*Encoder, got Lin"),
    ("Transformer", "decoder.layers", lambda m: m.decoder.layers[:0], "layers: expected all of the class"),
]


@pytest.mark.parametrize(("name", "path", "value", "message"), ALTERED)
def test_a_module_that_was_altered_is_refused(name, path, value, message, transformers):
    module = made(transformers, name) if name in MODELS else torch_module(name)
    interop.read(module)
    above, _, last = path.rpartition(".")
    setattr(module.get_submodule(above), last, value(module) if callable(value) else value)
    with pytest.raises(ValueError, match=f"^{message}"):
        interop.read(module)


def test_other_modules_are_refused(transformers):
    llama = made(transformers, "Llama")
    known = ".*Transformer, GPT2LMHeadModel, .*"
    for module in (llama.model, nn.Linear(2, 2), nn.MultiheadAttention(4, 2), llama.config):
        with pytest.raises(
            ValueError, match=f"^module: expected one of {known}, got {type(module).__name__}"
        ):
            interop.read(module)


def test_gradients_are_there_after_backward(transformers):
    module = made(transformers, "GPT-2")
    with pytest.raises(ValueError, match=r"^gradients: expected those of backward\(\), got none"):
        interop.read_gradients(module)
    module.lm_head.weight.sum().backward()  # of nothing but the table, which is tied
    grads = interop.read_gradients(module)
    assert np.all(grads["embedding"].pop("E") == 1)
    assert all(np.all(leaf == 0) for leaf in optree.tree_leaves(grads))


def test_parameters_are_copies(transformers):
    module = made(transformers, "GPT-2")
    _, params = interop.read(module)
    before = module.lm_head.weight.detach().clone()
    for leaf in optree.tree_leaves(params):
        leaf += 1
    assert torch.equal(module.lm_head.weight, before)


def test_padding_that_ends_a_text_is_told(transformers):
    module = made(transformers, "GPT-2, padding", eos_token_id=3)
    with pytest.warns(UserWarning, match="config.pad_token_id: 3 ends a text as well"):
        interop.read(module)
