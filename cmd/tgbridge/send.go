package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/bus"
)

// maxSendText bounds what send reads from stdin.
const maxSendText = 64 << 10

// sendCmd sends one message through the running leader.
func (c *cli) sendCmd() *cobra.Command {
	var (
		chat, thread int64
		file         string
	)
	cmd := &cobra.Command{
		Use:   "send --chat ID [--thread ID] [TEXT]",
		Short: "Send one message through the running leader (from stdin if no TEXT is given)",
		Long: "Send one message through the running leader, within its limits: from standard input if no TEXT is\n" +
			"given. Longer texts are sent in parts. It prints the ids of the messages.",
		Example: "  tgbridge send --chat 123456789 'backup done'\n  df -h | tgbridge send --chat -1001234567890 --thread 7",
		Args:    oneText,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case chat == 0:
				return usage("--chat is needed: the id of the chat to write to")
			case file != "":
				return usage("--file: this version sends text alone, no files")
			}
			p, err := c.find(cmd)
			if err != nil {
				return err
			}
			text, err := sendText(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			parts := bot.Parts(text)
			for i, part := range parts {
				messageID, err := p.send(cmd.Context(), chat, thread, part)
				if err != nil && len(parts) > 1 {
					return fmt.Errorf("part %d of %d: %w", i+1, len(parts), err)
				} else if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), messageID); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addBot(cmd)
	cmd.Flags().Int64Var(&chat, "chat", 0, "id of the chat, a number; of a private chat the user's")
	cmd.Flags().Int64Var(&thread, "thread", 0, "id of the topic")
	cmd.Flags().StringVar(&file, "file", "", "file to send (not in this version)")
	return cmd
}

func oneText(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return errors.New("the text has to be one argument: put it in quotes")
	}
	return nil
}

// sendText is the text to send: the argument, or stdin.
func sendText(stdin io.Reader, args []string) (string, error) {
	var text string
	if len(args) > 0 {
		text = args[0]
	} else {
		raw, err := io.ReadAll(io.LimitReader(stdin, maxSendText+1))
		if err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
		text = string(raw)
	}
	if len(text) > maxSendText {
		return "", usage("the text has more than %d bytes", maxSendText)
	}
	text = strings.TrimRight(text, "\r\n")
	if strings.TrimSpace(text) == "" {
		return "", usage("there is no text to send")
	}
	return text, nil
}

// send makes one sendMessage under one request id, so that asking again after a
// change of leader sends nothing twice.
func (p place) send(ctx context.Context, chat, thread int64, text string) (int64, error) {
	params := map[string]any{"chat_id": chat, "text": text}
	if thread != 0 {
		params["message_thread_id"] = thread
	}
	body, err := json.Marshal(params)
	if err != nil {
		return 0, fmt.Errorf("encode message: %w", err)
	}
	call := bus.Call{Request: uuid.NewString(), Method: "sendMessage", ContentType: "application/json", Body: body}
	var answer json.RawMessage
	err = p.askLeader(ctx, func(ctx context.Context, b *bus.Client) error {
		var err error
		answer, err = b.Call(ctx, "", call, bus.Held{})
		return err
	})
	var none *noAnswer
	switch {
	case bus.IsRefused(err, bus.CodeUnknown), errors.As(err, &none) && none.asked:
		return 0, fmt.Errorf("it is not known whether the message was sent: look into the chat before you send it again (%w)", err)
	case err != nil:
		return 0, fmt.Errorf("nothing was sent: %w", err)
	}
	result, err := bot.DecodeAnswer("sendMessage", answer)
	var refused *bot.CallError
	if errors.As(err, &refused) && strings.Contains(refused.Description, "chat not found") {
		return 0, fmt.Errorf("%w (%d is no chat's id, or the bot is not in it: a user has to write to it first, a group to add it)", err, chat)
	} else if err != nil {
		return 0, err
	}
	var message struct {
		ID int64 `json:"message_id"`
	}
	if err := json.Unmarshal(result, &message); err != nil {
		return 0, fmt.Errorf("decode sent message: %w", err)
	}
	return message.ID, nil
}
