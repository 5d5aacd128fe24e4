"""Other people's modules: the same logits, loss and gradients, from parameters that were carried over."""

import os

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from handgrad import fast, interop, model
from handgrad import twin as twins

torch.set_num_threads(1)  # the models here are tiny

TOLERANCE = 1e-10
"""Relative, of each gradient; 1e-9 is promised. The worst seen is 4e-14."""


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
        from transformers.models.bert import modeling_bert
        from transformers.models.llama import modeling_llama
        from transformers.models.mistral import modeling_mistral

        assert os.environ["HF_HUB_OFFLINE"] == "1" and modeling_bert
        for module in (modeling_llama, modeling_mistral):
            patch.setattr(module, "torch", Double())
        yield transformers


# Modules with random parameters

SIZES = dict(vocab_size=13, hidden_size=12, num_attention_heads=2, num_hidden_layers=3)
NO_ENDS = dict(bos_token_id=None, eos_token_id=None)
MODELS = {
    "GPT-2": ("GPT2", dict(n_positions=9)),
    "GPT-2, another width, head and activation": (
        "GPT2",
        dict(n_positions=7, n_inner=10, activation_function="relu", tie_word_embeddings=False),
    ),
    "GPT-2, padding": ("GPT2", dict(n_positions=9, pad_token_id=3, layer_norm_epsilon=0.1)),
    "BERT": ("Bert", dict(intermediate_size=10, max_position_embeddings=9)),
    "BERT, another head, activation and padding": (
        "Bert",
        dict(intermediate_size=10, max_position_embeddings=7, tie_word_embeddings=False)
        | dict(hidden_act="gelu_new", type_vocab_size=3, pad_token_id=5, layer_norm_eps=0.1),
    ),
    "BERT, sentences too": ("BertForPreTraining", dict(intermediate_size=10, max_position_embeddings=9)),
    "Llama": ("Llama", dict(intermediate_size=10)),
    "Llama, grouped queries": (
        "Llama",
        dict(intermediate_size=10, hidden_size=24, num_attention_heads=6, num_key_value_heads=2)
        | dict(rope_parameters={"rope_type": "default", "rope_theta": 100.0}, tie_word_embeddings=True),
    ),
    "Llama, biases and padding": (
        "Llama",
        dict(intermediate_size=10, num_attention_heads=3, num_key_value_heads=1, pad_token_id=4)
        | dict(attention_bias=True, rms_norm_eps=0.1),
    ),
    "Mistral": ("Mistral", dict(intermediate_size=10, num_key_value_heads=1, sliding_window=None)),
}
HEADS = {"GPT2": "LMHeadModel", "Bert": "ForMaskedLM", "Llama": "ForCausalLM", "Mistral": "ForCausalLM"}


def made(transformers, name, attention="sdpa", seed=0, **changes):
    """A model of the table in float64, every parameter random: no γ near 1, no bias near 0."""
    family, own = MODELS[name]
    kind = family.removesuffix("ForPreTraining")
    config = getattr(transformers, f"{kind}Config")(**SIZES | NO_ENDS | own | changes)
    config._attn_implementation = attention
    module = getattr(transformers, family if family != kind else family + HEADS[family])(config)
    return randomized(module, seed).eval()


def randomized(module, seed=0):
    """The module in float64 with every parameter drawn anew; also the frequencies of Llama, made in float32."""
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
    """A batch of random tokens, which repeat; rows end in padding, if there is one, and one begins with it."""
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
    """Logits, loss and gradients of a model of transformers, where the loss is taken of padded rows too."""
    module.zero_grad()
    out = module(**told(config, batch))
    logits = out["prediction_logits"] if "prediction_logits" in out else out["logits"]
    targets = np.where(batch["target_out"] == config.ignore_index, -100, batch["target_out"])
    loss = F.cross_entropy(logits.flatten(0, 1), torch.as_tensor(targets).flatten())
    loss.backward()
    return logits.detach().numpy(), float(loss.detach())


def compare(module, read=None, draw_keep=lambda: None, engines=(model, fast), seed=1):
    """Assert that logits, loss and every gradient are the same; returns the worst relative error."""
    read = read or interop
    config, params = read.read(module)
    batch = drawn(config, seed)
    logits, loss = by_torch(module, config, batch)
    wanted, worst = read.read_gradients(module), 0.0
    seen = np.ones(logits.shape[:2], bool) if config.pad is None else batch["tokens"] != config.pad
    for engine in engines:
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
    module = made(transformers, name, attention)
    worst = compare(module)
    print(f"{name}, {attention}: {worst:.1e}")
