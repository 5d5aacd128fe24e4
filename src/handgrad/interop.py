r"""Interop: the parameters and gradients of other people's modules, in the trees of handgrad, and back.

    nn.Transformer, its encoder, decoder and layers               PyTorch: blocks, without embeddings and head
    GPT2LMHeadModel, BertForMaskedLM, BertForPreTraining          transformers 5: whole models
    LlamaForCausalLM, MistralForCausalLM without a window

Both sides hold the same numbers in other places. A module is described by a tree that says where in it each
number of handgrad stands; `read`, `read_gradients` and `write` follow this one tree. Its rules:

    nn.Linear     y = x Wᵀ + b, so W is transposed; Conv1D, of GPT-2, has it as it is here
    Q, K, V       in one matrix of PyTorch and of GPT-2, side by side in y = x W + b
    rotary        of a head of width K, Llama turns the pairs (i, i + K/2) and handgrad (2i, 2i + 1): the
                  columns of W_Q and W_K change places, the same in both, and so no score changes

A module is called with attention_mask = (tokens ≠ pad). Its labels are −100 where the targets here hold
`config.ignore_index`. What handgrad cannot say raises ValueError, which names the module's setting, what was
expected, and what came.
"""

import warnings

import numpy as np
import optree

from .blocks import SITES
from .config import Config, check_params, named
from .ops import GATED
from .ops.activations import ACTIVATIONS as FUNCTIONS

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
ACTIVATIONS |= {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
GATES = {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu"}
"""The names that transformers has for ours, and for what stands in our gates."""
UNREAD = ("bert.pooler.", "cls.seq_relationship.", "cls.predictions.bias")
"""What the logits of BERT do not need: the head of next sentences, and a second name of the last bias."""
NAMES_OF_ACTIVATIONS = ("act", "act_fn", "intermediate_act_fn", "transform_act_fn")
"""Where the models of transformers keep what their configuration calls the activation."""


def read(module):
    """A module -> config, params, for `model` and `fast`: copies, NumPy arrays of the module's precision.

    Of a module of PyTorch params is one block, or has those of the entries encoder, encoder_norm, decoder,
    decoder_norm that there are; config is a dictionary of the keywords H, norm, activation, eps, p, sites of
    `blocks.encoder_block` and `blocks.decoder_block`. With bias=False its norms have no β: read as 0.
    Raises ValueError if handgrad cannot say what the module does, or does not know its class.
    """
    config, places = describe(module)
    return config, _look_up(config, places, module, lambda p: p)


def read_gradients(module):
    """The tree of `read` with the gradients that `backward()` left in the module; 0 where it left none.

    Raises ValueError as `read` does, and if no parameter has a gradient.
    """
    config, places = describe(module)
    _expect(any(p.grad is not None for p in module.parameters()), "gradients", "those of backward()", "none")
    return _look_up(config, places, module, lambda p: p.new_zeros(p.shape) if p.grad is None else p.grad)


def write(params, module):
    """Copy params into the module, which is returned: `read(module)` gives them again.

    Raises ValueError as `read` does, and unless the leaves and shapes are those of `read(module)` and hold
    finite real numbers; a β that the module does not have must be 0. Then nothing is written.
    """
    (_, places), (_, wanted) = describe(module), read(module)
    expected, got = optree.tree_paths(wanted), optree.tree_paths(params)
    _expect(got == expected, "params", f"the leaves {expected}, as read(module) has", got)
    flat, start = _flat(module, lambda p: p), 1
    for path, leaf, place in zip(got, optree.tree_leaves(params), optree.tree_leaves(places), strict=True):
        name = f"params{named(path)}"
        leaf = np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)
        _expect(leaf.dtype.kind in "fiu", name, "real numbers", leaf.dtype)
        _expect(np.isfinite(leaf).all(), name, "finite numbers", leaf[~np.isfinite(leaf)][:1])
        _expect(np.shape(leaf) == place.shape, name, f"shape {place.shape}", np.shape(leaf))
        _expect(place.all() or not np.any(leaf), name, "0, since the module has none", leaf)
        flat[place] = leaf
    for p in module.parameters():
        p.data.copy_(p.new_tensor(flat[start : start + p.numel()].reshape(p.shape)))
        start += p.numel()
    return module


def describe(module):
    """A module -> config, as in `read`, and the tree of the places of its numbers.

    The numbers of module.parameters() are counted from 1; what the module does not have is at 0.
    """
    name, places, taken, start = type(module).__name__, {}, set(), 1
    _expect(name in READERS, "module", f"one of {', '.join(READERS)}", name)
    for p in module.parameters():  # one that has two names comes once
        places[id(p)] = np.arange(start, start + p.numel()).reshape(p.shape)
        start += p.numel()

    for path, part in module.named_modules():
        for own in ("weight", "bias", "in_proj_weight", "in_proj_bias"):
            plain = getattr(part, own, None) is None or id(getattr(part, own)) in places
            _expect(plain, f"{path}.{own}", "a parameter", "what pruning or weight_norm computes from others")

    def at(parameter):
        taken.add(id(parameter))
        return places[id(parameter)]

    config, tree = READERS[name](module, at)
    twice = np.bincount(
        np.concatenate([place.ravel() for place in optree.tree_leaves(tree)]), minlength=start
    )
    for path, p in module.named_parameters():
        read = id(p) in taken or path.startswith(UNREAD)
        _expect(read, path, "no parameter of this name", f"one of shape {tuple(p.shape)}")
        shared = id(p) in taken and twice[places[id(p)].flat[0]] > 1
        _expect(not shared, path, "a parameter of one layer", "one that several layers share")
    if isinstance(config, Config):
        _check_parts(module, config)
    return config, tree


def _check_parts(module, config):
    """Raise ValueError unless activations and scores of a model are what its configuration says."""
    import torch

    name, points = GATED.get(config.activation, config.activation), np.linspace(-3, 3, 13)
    wanted = FUNCTIONS[name][0](points)[0]
    for path, part in module.named_modules():
        for own in NAMES_OF_ACTIVATIONS:
            if callable(f := getattr(part, own, None)):
                same = np.allclose(f(torch.from_numpy(points)).numpy(), wanted, rtol=0, atol=1e-6)
                _expect(same, f"{path}.{own}", f"{name}, as the configuration says", f)
        if (scaling := getattr(part, "scaling", None)) is not None:
            _expect(np.isclose(scaling, config.K**-0.5), f"{path}.scaling", config.K**-0.5, scaling)


def _look_up(config, places, module, of):
    """The tree of what `of` gives for each parameter."""
    flat = _flat(module, of)
    tree = optree.tree_map(lambda place: flat[place], places)
    if isinstance(config, Config):
        check_params(config, tree)
    return tree


def _flat(module, of):
    """What `of` gives for each parameter, in a vector behind one 0."""
    arrays = [of(p).detach().cpu() for p in module.parameters()]
    types = sorted({str(array.dtype) for array in arrays})
    fits = types in (["torch.float32"], ["torch.float64"])
    _expect(fits, "dtype", "float32 or float64, as module.float() has", types)
    return np.concatenate([np.zeros(1, str(arrays[0].numpy().dtype)), *(a.numpy().ravel() for a in arrays)])


# Parts of a module. `at` is a function from a parameter to the places of its numbers


def _part(module, names, at):
    """names {"Q": the path of a layer in the module, ...}, or the path of a norm -> {W_Q, b_Q, ...}."""
    names = {"": names} if isinstance(names, str) else names
    parts = (_layer(module.get_submodule(path), name, path, at) for name, path in names.items())
    return {name: place for part in parts for name, place in part.items()}


def _layer(layer, name, path, at):
    kind = type(layer).__name__
    if kind == "Embedding":
        return {name: at(layer.weight)}
    if kind in ("RMSNorm", "LlamaRMSNorm", "MistralRMSNorm"):
        return {"gamma": at(layer.weight)}
    if kind == "LayerNorm":
        _expect(layer.weight is not None, f"{path}.elementwise_affine", True, False)
        axes = tuple(layer.normalized_shape)
        _expect(len(axes) == 1, f"{path}.normalized_shape", "the last axis alone", axes)
        gamma = at(layer.weight)
        return {"gamma": gamma, "beta": 0 * gamma if layer.bias is None else at(layer.bias)}
    known = ("Linear", "NonDynamicallyQuantizableLinear", "Conv1D")
    _expect(kind in known, path, f"a norm, a table, or one of {known}", kind)
    W = at(layer.weight) if kind == "Conv1D" else at(layer.weight).T
    return _cut(W, None if layer.bias is None else at(layer.bias), name)


def _cut(W, b, names):
    """W (D, width), b or None, names "Q K V" -> {W_Q, b_Q, ...}: the columns of each lie side by side."""
    names = names.split()
    parts = dict(zip((f"W_{name}" for name in names), np.split(W, len(names), axis=1)))
    return parts | ({} if b is None else dict(zip((f"b_{name}" for name in names), np.split(b, len(names)))))


def _paired(attention, K):
    """The places of an attention whose heads turn as halves -> those of heads that turn in pairs."""

    def paired(place):  # (..., H·K): (half, i) -> (i, half)
        return place.reshape(*place.shape[:-1], -1, 2, K // 2).swapaxes(-1, -2).reshape(place.shape)

    return {name: paired(place) if name[-1] in "QK" else place for name, place in attention.items()}


def _eps(module):
    """The ε of all norms in a module. Raises ValueError unless it is one number."""
    norms = (part for part in module.modules() if type(part).__name__.endswith("Norm"))
    found = {getattr(norm, "eps", getattr(norm, "variance_epsilon", None)) for norm in norms}
    _expect(len(found) == 1, "ε of the norms", "one number", found)
    return found.pop()


def _expect(fits, setting, expected, got):
    if not fits:
        raise ValueError(f"{setting}: expected {expected}, got {got}")


def _dropout(probabilities):
    """[(site, probability), ...] -> p and the sites where it acts. Raises ValueError unless it is one p."""
    acting = {site for site, p in probabilities if p}
    own = {p for site, p in probabilities if site in acting}
    _expect(len(own) <= 1, "dropout", "one probability, or 0 at all places of a site", probabilities)
    return max(own, default=0.0), tuple(site for site in SITES if site in acting)


# Models of transformers: the parts of the tree, the names of their layers there, the path of the blocks

GPT2 = {
    "embedding": {"E": "transformer.wte", "P": "transformer.wpe"},
    "decoder": "transformer.h",
    "decoder_norm": "transformer.ln_f",
    "head": {"out": "lm_head"},
}
GPT2_BLOCK = {
    "self_attention": {"Q K V": "attn.c_attn", "O": "attn.c_proj"},
    "self_attention_norm": "ln_1",
    "feed_forward": {"1": "mlp.c_fc", "2": "mlp.c_proj"},
    "feed_forward_norm": "ln_2",
}
BERT = {
    "embedding": {
        "E": "bert.embeddings.word_embeddings",
        "P": "bert.embeddings.position_embeddings",
        "E_segment": "bert.embeddings.token_type_embeddings",
    },
    "embedding_norm": "bert.embeddings.LayerNorm",
    "encoder": "bert.encoder.layer",
    "head": {"out": "cls.predictions.decoder", "transform": "cls.predictions.transform.dense"},
    "head_norm": "cls.predictions.transform.LayerNorm",
}
BERT_BLOCK = {
    "self_attention": {
        "Q": "attention.self.query",
        "K": "attention.self.key",
        "V": "attention.self.value",
        "O": "attention.output.dense",
    },
    "self_attention_norm": "attention.output.LayerNorm",
    "feed_forward": {"1": "intermediate.dense", "2": "output.dense"},
    "feed_forward_norm": "output.LayerNorm",
}
LLAMA = {
    "embedding": {"E": "model.embed_tokens"},
    "decoder": "model.layers",
    "decoder_norm": "model.norm",
    "head": {"out": "lm_head"},
}
LLAMA_BLOCK = {
    "self_attention": {name: f"self_attn.{name.lower()}_proj" for name in "QKVO"},
    "self_attention_norm": "input_layernorm",
    "feed_forward": {name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
    "feed_forward_norm": "post_attention_layernorm",
}


def _model(module, names, of_block, at):
    """The tree of a whole model, and the fields of Config that are seen in it."""
    kind = "decoder" if "decoder" in names else "encoder"
    layers = module.get_submodule(names[kind])
    tree = {part: _part(module, own, at) for part, own in names.items() if part != kind}
    tree[kind] = [{part: _part(layer, own, at) for part, own in of_block.items()} for layer in layers]
    tied = module.get_output_embeddings().weight is module.get_input_embeddings().weight
    if tied:
        del tree["head"]["W_out"]
    seen = {"kind": kind, "N": len(layers), "tied": tied, "head_bias": "b_out" in tree["head"]}
    return {name: part for name, part in tree.items() if part}, seen | {"eps": _eps(module)}


def _settings(c, only, probabilities, **names):
    """What all configurations say. only: settings that must have these values, if there are such."""
    for setting, value in only.items():
        _expect(getattr(c, setting, value) == value, f"config.{setting}", value, getattr(c, setting, value))
    p, sites = _dropout([(site, getattr(c, name) or 0.0) for site, name in probabilities.items()])
    told = {"V": c.vocab_size, "D": c.hidden_size, "H": c.num_attention_heads, "pad": c.pad_token_id}
    if c.pad_token_id is not None and c.pad_token_id in np.ravel(c.eos_token_id):
        warnings.warn(
            f"config.pad_token_id: {c.pad_token_id} ends a text as well. Masks and losses leave padding out, "
            "so the end is never learnt: give padding a token of its own",
            stacklevel=2,
        )
    told |= {"p": p, "std": c.initializer_range} | ({"dropout_sites": sites} if sites else {})
    return told | {field: getattr(c, name) for field, name in names.items()}


def _activation(c, setting, known=ACTIVATIONS):
    name = getattr(c, setting)
    _expect(name in known, f"config.{setting}", f"one of {tuple(known)}", name)
    return known[name]


def _gpt2(module, at):
    """Radford et al. (2019)."""
    c = module.config
    only = dict(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    dropout = {"embedding": "embd_pdrop", "attention": "attn_pdrop", "sublayer": "resid_pdrop"}
    told = _settings(c, only, dropout, T_max="n_positions")
    told |= dict(F=c.n_inner or 4 * c.n_embd, activation=_activation(c, "activation_function"), norm="pre")
    tree, seen = _model(module, GPT2, GPT2_BLOCK, at)
    return Config(**told, **seen, final_norm=True, positions="learned", scaled_residuals=True), tree


def _bert(module, at):
    """Devlin et al. (2019), with the head for masked words."""
    c, hidden = module.config, "hidden_dropout_prob"
    only = dict(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
    _expect(c.type_vocab_size >= 1, "config.type_vocab_size", "at least 1", c.type_vocab_size)
    dropout = {"embedding": hidden, "attention": "attention_probs_dropout_prob", "sublayer": hidden}
    sizes = dict(F="intermediate_size", T_max="max_position_embeddings", segments="type_vocab_size")
    told = _settings(c, only, dropout, **sizes)
    told |= dict(activation=_activation(c, "hidden_act"), positions="learned", embedding_norm=True)
    tree, seen = _model(module, BERT, BERT_BLOCK, at)
    return Config(**told, **seen, head_transform=True), tree


def _llama(module, at):
    """Touvron et al. (2023)."""
    c = module.config
    K, rope = c.hidden_size // c.num_attention_heads, getattr(c, "rope_parameters", None) or {}
    plain = {"rope_type": "default", "rope_theta": rope.get("rope_theta")}
    _expect(rope == plain, "config.rope_parameters", 'rope_theta, and rope_type "default"', rope)
    only = dict(mlp_bias=False, head_dim=K, sliding_window=None)
    sizes = dict(F="intermediate_size", H_kv="num_key_value_heads")
    told = _settings(c, only, {"attention": "attention_dropout"}, **sizes)
    told |= dict(norm="pre", normalization="rms_norm", final_norm=True)
    told |= dict(activation=_activation(c, "hidden_act", GATES))
    told |= dict(attention_biases=getattr(c, "attention_bias", False), feed_forward_biases=False)
    tree, seen = _model(module, LLAMA, LLAMA_BLOCK, at)
    config = Config(**told, **seen, positions="rotary", rotary_base=rope["rope_theta"])
    for block in tree["decoder"]:
        block["self_attention"] = _paired(block["self_attention"], K)
    return config, tree


# Modules of PyTorch


def _torch_block(layer, at):
    """nn.TransformerEncoderLayer or DecoderLayer -> keywords, the tree of a block."""
    attentions = {"self_attention": layer.self_attn}
    if hasattr(layer, "multihead_attn"):
        attentions["cross_attention"] = layer.multihead_attn
    tree = {name: _torch_attention(own, at) for name, own in attentions.items()}
    tree["feed_forward"] = _part(layer, {"1": "linear1", "2": "linear2"}, at)
    dropout = [("hidden", layer.dropout.p)]
    for number, name in enumerate(list(tree), start=1):
        tree[f"{name}_norm"] = _part(layer, f"norm{number}", at)
        dropout.append(("sublayer", getattr(layer, f"dropout{number}").p))
    heads = {own.num_heads for own in attentions.values()}
    _expect(len(heads) == 1, "nhead", "one number", heads)
    p, sites = _dropout(dropout + [("attention", own.dropout) for own in attentions.values()])
    told = {"H": heads.pop(), "norm": "pre" if layer.norm_first else "post", "eps": _eps(layer)}
    return told | {"activation": _torch_activation(layer.activation), "p": p, "sites": sites}, tree


def _torch_attention(own, at):
    _expect(own.in_proj_weight is not None, "kdim, vdim", own.embed_dim, (own.kdim, own.vdim))
    _expect(not own.add_zero_attn, "add_zero_attn", False, own.add_zero_attn)
    b = None if own.in_proj_bias is None else at(own.in_proj_bias)
    return _cut(at(own.in_proj_weight).T, b, "Q K V") | _part(own, {"O": "out_proj"}, at)


def _torch_activation(function):
    from torch import nn, relu
    from torch.nn import functional as F

    if isinstance(function, nn.GELU):
        return "gelu_tanh" if function.approximate == "tanh" else "gelu"
    known = {F.relu: "relu", relu: "relu", nn.ReLU: "relu", F.gelu: "gelu", F.silu: "silu", nn.SiLU: "silu"}
    name = known.get(function, known.get(type(function)))
    _expect(name, "activation", "relu, gelu or silu of torch.nn", function)
    return name


def _torch_stack(name, block):
    """The function that describes an nn.TransformerEncoder or Decoder; block: the class of its layers."""

    def stack(module, at):
        classes = {type(layer).__name__ for layer in module.layers}
        _expect(classes == {block}, "layers", f"all of the class {block}", classes)
        told, blocks = zip(*(_torch_block(layer, at) for layer in module.layers))
        _expect(all(other == told[0] for other in told), "layers", "the same settings in all", told)
        if module.norm is None:
            return told[0], {name: list(blocks)}
        tree = {name: list(blocks), f"{name}_norm": _part(module, "norm", at)}
        return told[0] | {"eps": _eps(module)}, tree

    return stack


def _torch_transformer(module, at):
    """nn.Transformer -> keywords, the tree of both stacks."""
    stacks = {"TransformerEncoder": module.encoder, "TransformerDecoder": module.decoder}
    for name, stack in stacks.items():
        _expect(type(stack).__name__ == name, "custom_encoder, custom_decoder", name, type(stack).__name__)
    (told, encoder), (other, decoder) = (READERS[name](stack, at) for name, stack in stacks.items())
    _expect(told == other, "encoder, decoder", "the same settings in both", (told, other))
    return told, encoder | decoder


READERS = {
    "TransformerEncoderLayer": _torch_block,
    "TransformerDecoderLayer": _torch_block,
    "TransformerEncoder": _torch_stack("encoder", "TransformerEncoderLayer"),
    "TransformerDecoder": _torch_stack("decoder", "TransformerDecoderLayer"),
    "Transformer": _torch_transformer,
    "GPT2LMHeadModel": _gpt2,
    "BertForMaskedLM": _bert,
    "BertForPreTraining": _bert,
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _llama,
}
"""The classes of modules, and the functions that describe them: (module, at) -> config, tree of places."""
