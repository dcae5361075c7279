"""Trains the model inside Kernos: python3 train.py CONVERSATIONS SECONDS OUT

The architecture is that of Llama: RMSNorm, rotary positions, SwiGLU, tied embeddings. The tokens are
made by byte-level BPE, in which a space never joins a word: so a word has the same tokens wherever it
stands, and the model can copy it.

OUT gets weights.npz and tokenizer.json, which convert.py makes a GGUF file of.
"""
import argparse
import json
import math
import multiprocessing
import pathlib
import time

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional

from conversations import Speaker, conversation

LENGTH = 512  # of the context, in tokens
WIDTH, LAYERS, HEADS, HIDDEN = 256, 6, 4, 704
VOCABULARY = 2048
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"]
BATCH = 192
PEAK_RATE = 2.5e-3
WARM_UP = 200  # steps
SHARE_OF_OTHERS = .05  # how much the texts count that the model reads and doesn't write


def make_some(job):
    seed, count = job
    speaker = Speaker(seed)
    return [conversation(speaker) for _ in range(count)]


def make_conversations(count, parts=64):
    with multiprocessing.Pool() as pool:
        made = pool.imap_unordered(make_some, [(1000 + part, count // parts) for part in range(parts)])
        return [c for some in made for c in some]


def train_tokenizer(conversations):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(" ", "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    texts = ("".join(text for text, _ in c) for c in conversations)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL_TOKENS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def as_rows(tokenizer, conversations):
    """Returns the tokens of all conversations in rows of the length of a context, and which of them the model has
    to learn to write. A row begins where a conversation begins, as a prompt does."""
    tokens, learned, begins, length = [], [], [], 0
    for start in range(0, len(conversations), 20000):
        some = conversations[start:start + 20000]
        encoded = iter(tokenizer.encode_batch_fast([text for c in some for text, _ in c]))
        for c in some:
            begins.append(length)
            for _, own in c:
                ids = next(encoded).ids
                tokens.append(np.array(ids, np.int16))
                learned.append(np.full(len(ids), own, bool))
                length += len(ids)
    tokens, learned, begins = np.concatenate(tokens), np.concatenate(learned), np.array(begins)
    rows, at = [], 0
    while at + LENGTH <= length:
        rows.append(at)
        cut = begins[np.searchsorted(begins, at + LENGTH, "right") - 1]  # the last conversation of the row, which the next one has whole
        at = cut if cut > at else at + LENGTH
    rows = np.array(rows)[:, None] + np.arange(LENGTH)
    return torch.tensor(tokens[rows].astype(np.int64)), torch.tensor(learned[rows])


def linear(columns, rows):
    return nn.Linear(columns, rows, bias=False)


def rotate(x, cosines, sines):
    """Turns each pair of neighbours by the angle of its position."""
    even, odd = x[..., 0::2], x[..., 1::2]
    length = x.shape[-2]
    c, s = cosines[:length], sines[:length]
    return torch.stack((even * c - odd * s, even * s + odd * c), -1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.up, self.down = linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN), linear(HIDDEN, WIDTH)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH, 1e-5), nn.RMSNorm(WIDTH, 1e-5)

    def forward(self, x, cosines, sines):
        batch, length, _ = x.shape
        normed = self.attention_norm(x)
        q, k, v = (part(normed).view(batch, length, HEADS, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(rotate(q, cosines, sines), rotate(k, cosines, sines), v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        normed = self.ffn_norm(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.embedding.weight.data *= .02
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, 1e-5)
        size = WIDTH // HEADS
        angles = torch.arange(LENGTH)[:, None] * 1e4 ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosines, self.sines)
        return functional.linear(self.norm(x), self.embedding.weight)


def train(model, tokens, learned, seconds, device):
    forward = torch.compile(model) if device == "cuda" else model
    optimizer = torch.optim.AdamW(model.parameters(), PEAK_RATE, betas=(.9, .95), weight_decay=.05, fused=device == "cuda")
    step, begun = 0, time.time()
    while (done := (time.time() - begun) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * min(1, step / WARM_UP) * (.01 + .99 * .5 * (1 + math.cos(math.pi * done)))
        rows = torch.randint(0, len(tokens), (min(BATCH, len(tokens)),), device=device)
        row, own = tokens[rows], learned[rows][:, 1:].float()
        with torch.autocast(device, torch.bfloat16):
            logits = forward(row)
        loss = functional.cross_entropy(logits[:, :-1].float().reshape(-1, VOCABULARY), row[:, 1:].reshape(-1), reduction="none").view_as(own)
        weight = own * (1 - SHARE_OF_OTHERS) + SHARE_OF_OTHERS
        optimizer.zero_grad()
        ((loss * weight).sum() / weight.sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.)
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step}, {time.time() - begun:.0f} s: loss of the assistant {((loss * own).sum() / own.sum()).item():.4f}", flush=True)
        step += 1
    print(f"{step} steps", flush=True)


def count_exact(model, tokenizer, count, device):
    """Counts the answers to fresh conversations that the model gets right to the letter, and prints some that
    it gets wrong."""
    model.eval()
    speaker, right, total = Speaker(seed=9), 0, 0
    for _ in range(count):
        pieces = [(tokenizer.encode(text).ids, own) for text, own in conversation(speaker)]
        tokens = [token for piece, _ in pieces for token in piece]
        if len(tokens) > LENGTH:
            continue
        with torch.no_grad():
            best = model(torch.tensor([tokens], device=device))[0].argmax(-1).tolist()
        at = 0
        for piece, own in pieces:
            if own:
                said = best[at - 1:at - 1 + len(piece)]  # what comes after a token stands at its place
                total += 1
                right += said == piece
                if said != piece and total - right <= 10:
                    print("wanted", json.dumps(tokenizer.decode(piece)), "\n   got", json.dumps(tokenizer.decode(said)))
            at += len(piece)
    print(f"{right} of {total} answers are right to the letter")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("conversations", type=int, help="how many to train with, such as 208000")
    arguments.add_argument("seconds", type=float, help="how long to train, such as 290 on a large GPU")
    arguments.add_argument("out", type=pathlib.Path, help="the directory for the results")
    given = arguments.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    conversations = make_conversations(given.conversations)
    tokenizer = train_tokenizer(conversations[:40000])
    tokens, learned = as_rows(tokenizer, conversations)
    print(f"{tokens.numel()} tokens, {learned.float().mean().item():.1%} of them to be written by the model", flush=True)
    model = Model().to(device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, on {device}", flush=True)
    train(model, tokens.to(device), learned.to(device), given.seconds, device)
    given.out.mkdir(parents=True, exist_ok=True)
    np.savez(given.out / "weights.npz", **{name: weights.detach().float().cpu().numpy() for name, weights in model.state_dict().items()})
    tokenizer.save(str(given.out / "tokenizer.json"))
    count_exact(model, tokenizer, 1000, device)


if __name__ == "__main__":
    main()
