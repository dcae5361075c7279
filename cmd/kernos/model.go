package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/chat"
	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

// modelCommand returns the module model, and what connects models.
func modelCommand() *cobra.Command {
	c := moduleCommand(&cobra.Command{
		Use:   "model",
		Short: "Language models: find, connect, list and try them",
		Long: `kernos model detect finds models on this machine and keys in the environment, and kernos
model add connects one. Until then, the model demo answers: it is built in, for trying
things out, and knows nothing.`,
		Example: `  kernos model detect
  kernos model add ollama
  kernos model add openai --model gpt-5
  kernos model list
  kernos model check --model openai
  kernos model default openai
  kernos model remove ollama`,
	})
	c.AddCommand(modelDetectCommand(), modelAddCommand())
	return c
}

func modelDetectCommand() *cobra.Command {
	c := prints(&cobra.Command{
		Use:   "detect",
		Short: "Find models that could be connected",
		Long: `Look for model servers on this machine (ollama, llama-server and LM Studio, at their usual
ports), and for the keys of providers in environment variables such as OPENAI_API_KEY.
Nothing is connected, and no key is sent. ` + chat.ServersVariable + ` names other
servers: NAME=HOST:PORT,… or none.`,
		Example: "  kernos model detect",
		Args:    noArguments,
	}, "table", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		server, err := server.FindServer(contextOf(c), "")
		if err != nil {
			return err
		}
		return exit.OnSignal(c.Context(), func(ctx context.Context) error {
			found := chat.Detect(ctx, server.Daemon != nil)
			return writeValue(ctx, s, o, map[string]any{"found": append([]chat.Found{}, found...)}, func() error { return chat.ShowFound(s, found) })
		})
	})
	addContextFlag(c)
	return c
}

func modelAddCommand() *cobra.Command {
	var wanted chat.Found
	var withKey bool
	names := func() (all []string) {
		for _, p := range chat.Providers() {
			all = append(all, p.Name)
		}
		return all
	}()
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Connect a model",
		Long: `Connect a model that kernos model detect has found, or a provider:
` + strings.Join(names, ", ") + `.
The model is asked for one word, and isn't connected if it doesn't answer. Its settings are
kept as models/NAME in the memory. It becomes the default if there is none.

The key of a provider is taken from its environment variable, or else asked for, or read
from standard input. It is sealed for the host of the provider before it is stored.

--url connects any other server that talks like OpenAI's.`,
		Example: `  kernos model add ollama
  kernos model add openai --model gpt-5
  kernos model add anthropic < key.txt
  kernos model add vllm --url http://gpu.example.org:8000/v1 --model qwen3`,
		Args:              one("name the model: kernos model add NAME; kernos model detect shows what was found, and kernos model add --help the providers"),
		ValidArgsFunction: line.FirstArgument(cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)),
	}
	c.Flags().StringVar(&wanted.Model, "model", "", "the `NAME` of the model there (default: the one that kernos model detect shows)")
	c.Flags().StringVar(&wanted.BaseURL, "url", "", "the `URL` of a server that talks like OpenAI's")
	c.Flags().BoolVar(&withKey, "key", false, "the server of --url wants a key")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		local, err := v.Local()
		if err != nil {
			return err
		}
		wanted.Name = v.Args[0]
		found, err := chat.Wanted(ctx, v.Screen, c.InOrStdin(), wanted, withKey, local, v.Shows())
		if err != nil {
			return err
		}
		return v.Send(ctx, "Model.Add", found.Addition(), func(data json.RawMessage) error {
			return shows((*chat.Added).Show)(v, "Model.Add", data)
		})
	}, "text")
}
