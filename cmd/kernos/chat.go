package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/chat"
	"kernos/cmd/kernos/line"
	"kernos/internal/exit"
)

func chatCommand() *cobra.Command {
	o := &chat.Options{}
	c := &cobra.Command{
		Use:   "chat [TEXT…]",
		Short: "Talk with a language model that calls syscalls",
		Long: `Talk with a language model. It calls syscalls, and what acts outside of the kernel asks
first: a key answers. The conversation is a session: it is kept, its turns continue when the
chat has ended, and --resume comes back to it. kernos graph SESSION shows why each thing
happened.

TEXT is the first message. A line that begins with / is a command; /help lists them. @PATH
sends a file. Tab completes commands, files, syscalls and skills, Ctrl-J begins another line,
and Ctrl-R searches earlier inputs. Ctrl-C ends the turn, or clears the line; a second one
leaves. Markdown is shown as a terminal can; --plain shows it as it is written.

With nothing configured, model servers on this machine and keys in the environment are
looked for (kernos model detect), and otherwise the model demo answers, which is built in.

-p TEXT is for scripts: it sends one message, prints the replies and ends with the turn, as
TEXT does where there is no terminal. Standard input that isn't a terminal goes with the
text. The status is 0 if the turn is done, 1 if it has failed, 3 if a call needs an approval
(the turn waits for it), 130 if an interrupt has ended it. --json prints the messages of the
turn, one per line.`,
		Example: `  kernos chat
  kernos chat "What can you do?"
  kernos chat --agent os://agents/writer.md --model local
  kernos chat --last
  kernos chat --resume 01K9Z…X4V2QD
  kernos chat --fork 01K9Z…X4V2QD@12
  git diff | kernos chat -p "What does this change?"
  kernos chat -p "list my notes" --json | jq -r 'select(.type == "reply").text'`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneSession(c, o); err != nil {
				return err
			}
			if o.Resume == chat.Choose && len(args) > 0 { // a flag that can stand alone takes no next word
				o.Resume, args = args[0], args[1:]
			}
			if o.First = strings.Join(args, " "); o.First != "" && o.Prompt != "" {
				return fmt.Errorf("-p and TEXT are both the message: give one of them")
			}
			o.Open, o.Out, o.Err = opener(c, started), c.OutOrStdout(), c.ErrOrStderr()
			if err := o.Prepare(contextOf(c), c.InOrStdin()); err != nil {
				return err
			}
			return exit.OnSignal(c.Context(), func(ctx context.Context) error { return chat.Run(ctx, o) })
		},
	}
	addContextFlag(c)
	flags := c.Flags()
	flags.StringVar(&o.Agent, "agent", "", "the `URI` of an agent file: its text is the system message, its tools are the session's")
	flags.StringVar(&o.Model, "model", "", "the `NAME` of the model, as kernos model list has it")
	flags.StringVar(&o.Resume, "resume", "", "continue a session: its `ID`; without one, choose it")
	flags.Lookup("resume").NoOptDefVal = chat.Choose
	flags.BoolVar(&o.Last, "last", false, "continue the latest session")
	flags.StringVar(&o.Fork, "fork", "", "begin with the messages of another session, up to one of them: `ID@SEQ`")
	flags.StringVarP(&o.Prompt, "prompt", "p", "", "send this `TEXT`, print the replies, and end")
	flags.BoolVar(&o.JSON, "json", false, "print messages as JSON, one per line; with -p")
	flags.BoolVar(&o.Plain, "plain", false, "show Markdown as it is written")
	_ = c.RegisterFlagCompletionFunc("resume", line.CompleteParameter("session", "get"))
	return c
}

// oneSession refuses flags that contradict each other about the session.
func oneSession(c *cobra.Command, o *chat.Options) error {
	var given []string
	for _, name := range []string{"resume", "last", "fork"} {
		if c.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	switch {
	case len(given) > 1:
		return fmt.Errorf("%s each name the session to continue: give one of them", strings.Join(given, " and "))
	case len(given) == 1 && o.Agent != "":
		return fmt.Errorf("--agent is for a new session, and %s continues one: leave one of them out", given[0])
	}
	return nil
}
