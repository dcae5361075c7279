package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/internal/quantity"
	"kernos/message"
)

// named is the input of a request that names something.
type named struct {
	Name string `json:"name"`
}

// mcpHostCommands returns the commands about servers that this kernel is the host of.
func mcpHostCommands() []*cobra.Command {
	of := func(c *cobra.Command) *cobra.Command {
		c.Args = oneListed("server")
		c.ValidArgsFunction = line.CompleteParameter("mcp", "show")
		return c
	}
	return []*cobra.Command{
		mcpAddCommand(),
		views(of(&cobra.Command{
			Use:   "show NAME",
			Short: "Show an MCP server: its tools, files and changes",
		}), inProcess, func(ctx context.Context, v *line.View) error {
			return v.Send(ctx, "Mcp.Show", named{v.Args[0]}, shows(v, "Mcp.Show", (*line.MCPServer).Show))
		}, "text"),
		views(of(&cobra.Command{
			Use:   "refresh NAME",
			Short: "Ask an MCP server again what it offers, and log in to it",
		}), inProcess, func(ctx context.Context, v *line.View) error {
			return waitForServer(ctx, v, "Mcp.Refresh", named{v.Args[0]})
		}, "text"),
	}
}

func mcpAddCommand() *cobra.Command {
	var add line.Addition
	var env, headers []string
	client := make(map[string]*string)
	var timeout quantity.PositiveDuration
	c := &cobra.Command{
		Use:   "add NAME [flags] -- COMMAND... | add NAME [flags] URL",
		Short: "Mount an MCP server: its tools become syscalls",
		Long: `Mount another server of the Model Context Protocol: a program, which speaks over its
standard streams, or the address of one that speaks streamable HTTP. Its tool create_issue
becomes the syscall Name.CreateIssue, its resources and prompts files below os://mcp/NAME.

The program is run with your rights, and sees of your environment only where things are
(PATH, HOME, …) and what --env gives it. Values of --env and --header are kept sealed; a
value that is sealed already stays as it is. If the server wants you to log in, the address
to open is printed, and the command waits.

Sessions ask before they call a tool of the server, until you allow it: kernos mcp allow.
If the server describes a tool in another way later, sessions ask again.`,
		Example: `  kernos mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  kernos mcp add github --header "Authorization: Bearer $(cat token)" https://api.githubcopilot.com/mcp/
  kernos mcp add weather --env API_KEY=pwenc:v2:… -- weather-server`,
		Args: func(_ *cobra.Command, args []string) (err error) {
			if len(args) < 2 {
				return errors.New("give the server a name, and say what it is: kernos mcp add NAME -- COMMAND…, or kernos mcp add NAME URL")
			}
			add.Name, add.Timeout = args[0], time.Duration(timeout).Milliseconds()
			for name, value := range client {
				if *value != "" {
					if add.Client == nil {
						add.Client = make(map[string]string)
					}
					add.Client[name] = *value
				}
			}
			if err = add.SetTarget(args[1:]); err != nil {
				return err
			}
			if add.Env, err = line.Pairs("env", env); err != nil {
				return err
			}
			add.Headers, err = line.Pairs("headers", headers)
			return err
		},
	}
	f := c.Flags()
	f.StringArrayVar(&env, "env", nil, "a variable of the program's environment, as `NAME=VALUE`")
	f.StringArrayVar(&headers, "header", nil, "a header of the requests to the address, as `NAME: VALUE`")
	f.StringVar(&add.Directory, "directory", "", "the `DIRECTORY` that the program runs in (default: the home of Kernos)")
	f.StringVar(&add.Protocol, "protocol", "", "the `REVISION` of the protocol, such as 2025-11-25 (default: found out)")
	f.StringVar(&add.Forms, "forms", "", "what the server gets that wants a form filled in: an `ANSWER`, decline or defaults (default decline)")
	client["id"] = f.String("client-id", "", "the `ID` that the server's authorization server knows this kernel by (default: it registers by itself)")
	client["secret"] = f.String("client-secret", "", "the `SECRET` that belongs to --client-id")
	client["key"] = f.String("client-key", "", "in place of a secret, the private `KEY` that the client signs with, as PEM: no person logs in")
	client["keyId"] = f.String("client-key-id", "", "what the authorization server calls the key, as `ID`")
	client["grant"] = f.String("client-grant", "", "the `GRANT` by which the client gets tokens: authorization_code, or client_credentials, for which no person logs in")
	client["issuer"] = f.String("client-issuer", "", "the authorization server that may get the client's credentials, as `URL` (default: the first one that the server names)")
	f.Var(&timeout, "timeout", "how long a tool may take (default 1m)")
	return views(c, inProcess, func(ctx context.Context, v *line.View) error { return waitForServer(ctx, v, "Mcp.Add", add) }, "text")
}

// waitForServer sends a request that may want a person to log in, and shows the server.
func waitForServer(ctx context.Context, v *line.View, t message.Type, input any) error {
	data, err := line.Wait(ctx, v.Call, v.Screen, t, input)
	if err != nil {
		return err
	}
	return v.Write(ctx, data, shows(v, t, (*line.MCPServer).Show))
}
