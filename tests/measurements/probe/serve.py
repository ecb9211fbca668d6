"""A tiny random model, and llama.cpp's own server that serves it on loopback until its standard input ends."""

from __future__ import annotations

import sys
from pathlib import Path

WIDTH, LAYERS, HEADS, INNER = 64, 2, 4, 128
TRAINED, WINDOW, SLOTS = 4096, 2048, 4
#: What answers are made of: whole words, so that every token is one piece of a stream.
SAID = [f"▁word{number}" for number in range(200)]
TEMPLATE = ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
            "{% if enable_thinking is defined and not enable_thinking %}-{% endif %}")


def write(path: Path) -> None:
    """A model of the llama architecture with random weights from a fixed seed: 0.5 MB, written in milliseconds."""
    import numpy as np
    from gguf import GGUFWriter

    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *SAID]
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(SAID)
    out = GGUFWriter(str(path), "llama")
    out.add_name("tiny")
    out.add_context_length(TRAINED)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("llama")
    out.add_tokenizer_pre("default")
    out.add_token_list(tokens)
    out.add_token_scores([-1000.0] * len(tokens))
    out.add_token_types(kinds)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_add_bos_token(True)
    out.add_add_space_prefix(False)
    out.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(7)

    def random(name: str, *shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)

    out.add_tensor("token_embd.weight", random("embedding", len(tokens), WIDTH))
    head = random("head", len(tokens), WIDTH)
    head[:len(tokens) - len(SAID)] = 0  # one of 200 words always scores above 0, so that no other token is ever chosen
    out.add_tensor("output.weight", head)
    out.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
        for name, rows, columns in (
            ("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH, WIDTH), ("attn_v", WIDTH, WIDTH),
            ("attn_output", WIDTH, WIDTH), ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ):
            out.add_tensor(f"blk.{layer}.{name}.weight", random(name, rows, columns))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main(path: str, port: str) -> None:
    """Serves the model; prints ``ready`` when it does."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.port = int(port)
    params.hostnames = ["127.0.0.1"]
    params.n_ctx, params.n_parallel, params.kv_unified = WINDOW * SLOTS, SLOTS, False
    params.endpoint_metrics = params.endpoint_props = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = params.fit_params = False
    params.use_jinja = True
    server = xllamacpp.Server(params)
    print("ready", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
