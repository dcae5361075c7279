"""Writes what train.py has made as a GGUF file, with the matrices as Q8_0: python3 convert.py DIRECTORY OUT.gguf"""
import json
import pathlib
import sys

import gguf
import numpy as np

LENGTH, WIDTH, LAYERS, HEADS, HIDDEN = 512, 256, 6, 4, 704
MATRICES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
VECTORS = {"attention_norm": "attn_norm", "ffn_norm": "ffn_norm"}
CONTROL_TOKENS = 3  # <|endoftext|>, <|im_start|>, <|im_end|>
WRITTEN_TOKENS = 4  # <tool_call>, <think> and their ends, which are texts of the model


def add_settings(out):
    out.add_name("kernos-demo")
    out.add_context_length(LENGTH)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(HIDDEN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_rope_freq_base(1e4)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    out.add_chat_template(pathlib.Path(__file__).with_name("template.jinja").read_text())


def add_tokenizer(out, tokenizer):
    tokens = sorted(tokenizer["vocab"], key=tokenizer["vocab"].get)
    kinds = [gguf.TokenType.CONTROL] * CONTROL_TOKENS + [gguf.TokenType.USER_DEFINED] * WRITTEN_TOKENS
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types(kinds + [gguf.TokenType.NORMAL] * (len(tokens) - len(kinds)))
    out.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["merges"]])
    out.add_bos_token_id(0)
    out.add_eos_token_id(2)
    out.add_pad_token_id(0)
    out.add_add_bos_token(False)


def add_matrix(out, name, values):
    kind = gguf.GGMLQuantizationType.Q8_0
    out.add_tensor(name, gguf.quants.quantize(values.astype(np.float32), kind), raw_dtype=kind)


def add_vector(out, name, values):
    out.add_tensor(name, values.astype(np.float32))


def main():
    directory, file = pathlib.Path(sys.argv[1]), sys.argv[2]
    weights = np.load(directory / "weights.npz")
    out = gguf.GGUFWriter(file, "llama")
    add_settings(out)
    add_tokenizer(out, json.loads((directory / "tokenizer.json").read_text())["model"])
    add_matrix(out, "token_embd.weight", weights["embedding.weight"])  # the output too: the two are tied
    add_vector(out, "output_norm.weight", weights["norm.weight"])
    for i in range(LAYERS):
        for ours, theirs in MATRICES.items():
            add_matrix(out, f"blk.{i}.{theirs}.weight", weights[f"blocks.{i}.{ours}.weight"])
        for ours, theirs in VECTORS.items():
            add_vector(out, f"blk.{i}.{theirs}.weight", weights[f"blocks.{i}.{ours}.weight"])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
