package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// errDeclined ends a command whose question was answered with no.
var errDeclined = fault.New(fault.Denied, "nothing was done")

// ask prints a question and reads one line from the person's terminal.
func (e *Env) ask(question string) (string, error) {
	fmt.Fprint(e.Err, question)
	if e.lines == nil {
		e.lines = bufio.NewReader(e.In)
	}
	s, err := e.lines.ReadString('\n')
	if err != nil && (s == "" || !errors.Is(err, io.EOF)) {
		fmt.Fprintln(e.Err)
		if errors.Is(err, io.EOF) {
			return "", errDeclined
		}
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(s), nil
}

// confirm asks a yes/no question whose default is no. Without a terminal there
// is nobody to ask, and the flag that answers in advance is named (CF-011).
func (e *Env) confirm(command, question string, yes bool) error {
	if yes {
		return nil
	}
	if !e.TTY(e.In) {
		return fault.New(fault.Invalid, "%s asks first, and there is no terminal to ask on", command).
			WithNext("Pass --yes to go ahead without the question.")
	}
	answer, err := e.ask(clean(question) + " [y/N] ")
	if err != nil {
		return err
	}
	if a := strings.ToLower(answer); a != "y" && a != "yes" {
		return errDeclined
	}
	return nil
}

// patience is the silence after which a command that reads its standard input
// says so: a person may not know that it waits.
const patience = 2 * time.Second

// stdin reads everything that was piped in; "" when nothing was. what names it.
func (e *Env) stdin(what string) (string, error) {
	if !e.Piped() {
		return "", nil
	}
	hint := time.AfterFunc(patience, func() {
		e.note("reading the %s from standard input; end it, or start the command with </dev/null", what)
	})
	defer hint.Stop()
	b, err := io.ReadAll(io.LimitReader(e.In, names.BodyMax+1))
	if err != nil {
		return "", fmt.Errorf("read the %s from standard input: %w", what, err)
	}
	if len(b) > names.BodyMax {
		return "", fault.New(fault.TooLarge, "the %s is larger than 5 MB", what)
	}
	return strings.TrimRight(string(b), "\n"), nil
}

const scissors = "# ------------------------ >8 ------------------------"

// words finds the words a verb needs: the flag, else standard input, else the
// person's editor. help is shown below the scissors line of the editor. given is
// whether the flag was present at all: a blank flag is blank, not absent.
func (e *Env) words(ctx context.Context, what, flag string, given bool, help string) (string, error) {
	if given && flag != "-" {
		return flag, nil
	}
	if flag == "-" || !e.TTY(e.In) {
		return e.stdin(what)
	}
	return e.edit(ctx, what, help)
}

// edit opens the person's editor on a file and returns what is above the
// scissors line.
func (e *Env) edit(ctx context.Context, what, help string) (string, error) {
	editor := ""
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if editor = strings.TrimSpace(e.Getenv(name)); editor != "" {
			break
		}
	}
	if editor == "" {
		return "", fault.New(fault.Invalid, "the %s is missing, and neither VISUAL nor EDITOR names an editor to write it in", what).
			WithNext("Give it with a flag, pipe it in, or set EDITOR.")
	}
	dir, err := os.MkdirTemp("", "lazy-edit-")
	if err != nil {
		return "", fmt.Errorf("make a file for the editor: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, strings.ReplaceAll(what, " ", "-")+".md")
	var body strings.Builder
	body.WriteString("\n" + scissors + "\n# Write the " + what + " above this line; everything below it is ignored.\n")
	for l := range strings.SplitSeq(strings.TrimRight(clean(help), "\n"), "\n") {
		body.WriteString(strings.TrimRight("# "+l, " ") + "\n")
	}
	if err := os.WriteFile(path, []byte(body.String()), 0o600); err != nil {
		return "", fmt.Errorf("make a file for the editor: %w", err)
	}
	// The shell splits an EDITOR such as `code --wait` the way the person meant it.
	if err := e.Exec(ctx, []string{"/bin/sh", "-c", editor + ` "$1"`, editor, path}); err != nil {
		return "", fault.Wrap(fault.Failed, err, "the editor %s ended with an error; nothing was done", line(editor))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read what the editor left: %w", err)
	}
	out, _, _ := strings.Cut(string(b), scissors)
	return strings.TrimSpace(out), nil
}

// required refuses blank words, naming the way to give them.
func required(what, words, flag string) error {
	if text.Blank(words) {
		return fault.New(fault.Invalid, "a %s is required and none was given", what).
			WithNext("Give it with " + flag + ", pipe it in, or write it in your editor.")
	}
	return nil
}
