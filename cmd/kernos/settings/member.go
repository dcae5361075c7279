package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/pflag"

	"kernos/daemon"
	"kernos/internal/durable"
)

// A home that has joined a cluster opens only as its member. The file cluster.json in its state says so, and has the settings with
// which it did; whatever opens the home afterwards has them.

// membership is the content of the file.
type membership struct {
	Settings map[string][]string `json:"settings"`
}

// Membership returns the settings with which a home has joined a cluster; nil if it has joined none.
func Membership(h daemon.Home) (map[string][]string, error) {
	text, err := readOwned(h.Membership())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	var m membership
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && len(m.Settings) == 0 {
		err = errors.New("it has no settings")
	}
	if err != nil {
		return nil, fmt.Errorf("the file %s, with which this home is a member of a cluster, can't be read: %w; correct it, or end the membership with kernos cluster leave", h.Membership(), err)
	}
	return m.Settings, nil
}

// completeMember sets the flags of a cluster that were given nowhere to the settings of a member.
// It returns their names.
func completeMember(h daemon.Home, flags *pflag.FlagSet, given func(string) bool) (set []string, err error) {
	remembered, err := Membership(h)
	if err != nil {
		return nil, err
	}
	inside, outside := []string{"cluster-listen", "cluster-peers", "cluster-secret"}, []string{"cluster", "cluster-credentials", "cluster-ca", "cluster-cert", "cluster-key"}
	for _, name := range ofMember {
		switch {
		case given(name), given("cluster-listen") && slices.Contains(outside, name), given("cluster") && slices.Contains(inside, name):
			continue
		}
		for _, text := range remembered[name] {
			if err := flags.Lookup(name).Value.Set(text); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", h.Membership(), name, err)
			}
			set = append(set, name)
		}
	}
	return set, nil
}

// Join makes a home a member of a cluster for good, with the settings that it is opened with. Name is the name of the node.
func (s *Serve) Join(h daemon.Home, name string) error {
	c := &s.cluster
	m := membership{Settings: map[string][]string{"cluster-name": {name}}}
	for name, values := range map[string][]string{
		"cluster": c.Servers, "cluster-peers": c.Peers, "cluster-listen": {c.Listen}, "cluster-address": {c.Address}, "cluster-secret": {absolute(c.Secret)},
		"cluster-credentials": {absolute(c.Credentials)}, "cluster-ca": {absolute(c.CA)}, "cluster-cert": {absolute(c.Certificate)}, "cluster-key": {absolute(c.Key)},
	} {
		if len(values) > 0 && values[0] != "" {
			m.Settings[name] = values
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if now, err := os.ReadFile(h.Membership()); err == nil && string(now) == string(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.Membership()), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(h.Membership(), text)
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil && path != "" {
		return full
	}
	return path
}

// Secret returns the file in a home with the secret of its cluster, unless a setting names another one.
func Secret(h daemon.Home) string { return filepath.Join(h.Dir, "cluster.secret") }

// Leave makes a home a member of no cluster: nothing of it is remembered. It returns the settings that are left, since they come from
// variables or from config.yaml.
func Leave(h daemon.Home) (left []string, err error) {
	if err := os.Remove(h.Membership()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := readConfig(filepath.Join(h.Dir, "config.yaml"))
	for _, name := range ofMember {
		if _, is := file[name]; is {
			left = append(left, name+" in config.yaml")
		}
		if os.Getenv(VariableOf(name)) != "" {
			left = append(left, VariableOf(name))
		}
	}
	return left, err
}
