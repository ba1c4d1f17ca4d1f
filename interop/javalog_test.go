package interop

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// situation is what happened to a directory before RocketMQ opened it.
type situation uint8

const (
	cleanStop situation = iota
	killedBefore
)

// damage lists the lines by which RocketMQ 4.9.3 tells that a store is not as it
// should be, whatever their level. The text is that of its source.
var damage = []struct {
	text      string // a regular expression
	afterKill bool   // a kill explains it
}{
	// CommitLog, checkMessageAndReturnSize: the end of the log is found by meeting
	// zeros, of which it says that 0 is an illegal magic code.
	{`found a illegal magic code 0x(0.+|[1-9a-f].*)$`, false},
	{`\[BUG\]read total count not equals msg total size`, false},
	{`CRC check failed`, false},
	// CommitLog, recovery.
	{`The commitlog files are deleted, and delete the consume queue files`, false},
	{`last shutdown abnormally`, true},
	{`the store may be wrong, so shutdown abnormally, and keep abort file`, false},
	// ConsumeQueue, ReputMessageService.
	{`\[BUG\]logic queue order maybe wrong`, false},
	{`\[BUG\]put commit log position info to`, false},
	{`\[BUG\]consume queue can not write`, false},
	{`\[BUG\]dispatch message to consume queue error`, false},
	{`\[TooSmallCqOffset\]`, false},
	{`The reputFromOffset=.* is smaller than minPyOffset=`, false},
	{`but commitlog have not finish to be dispatched`, false},
	{`Build  consume queue repeatedly`, true}, // recovery gives the queues what they have
	{`Maybe try to build consume queue repeatedly`, true},
	{`fill pre blank space`, false},
	// MappedFileQueue, MappedFile.
	{`0 length not matched message store config value`, true}, // see F9
	{`length not matched message store config value`, false},
	{`The mappedFile queue's data is damaged`, false},
	{`on recover, destroy a logic mapped file`, false},
	{`Failed to (create|map) file`, false},
	{`Error occurred when`, false},
	// IndexService, IndexFile.
	{`build index error`, false},
	{`Mark index file cannot build flag`, false},
	{`putKey exception`, false},
	{`load file .* error`, false},
	{`load index file .* delete`, false},
	// ScheduleMessageService.
	{`schedule CQ offset invalid`, false},
	{`correct delay offset`, false},
	// Anything.
	{`(?i)\[bug\]`, false},
	{`(?i)exception`, false},
}

// harmless lists the warnings of a store in order.
var harmless = []string{
	`^found a illegal magic code 0x0$`, // the end of the log
	`^take flush disk commit request, but interrupted, this may caused by shutdown`,
	`^AllocateMappedFileService interrupted, possibly by shutdown`,
	`^create mappedFile spent time\(ms\)`,
	`^Index file \[.*\] is full, trying to create another one`,
	`^Over index file capacity`,
	`^\[NOTIFYME\]putMessages? in lock cost time`, // a slow machine
	`not in lock elapsed time`,
}

var (
	damagePatterns   []*regexp.Regexp
	harmlessPatterns []*regexp.Regexp

	queueAhead  = regexp.MustCompile(`^maxPhyOffsetOfConsumeQueue\((\d+)\) >= processOffset\((\d+)\), truncate dirty logic files$`)
	behindEnd   = regexp.MustCompile(`^Offset not matched. Request offset: (\d+), firstOffset: \d+, lastOffset: (\d+),`)
	behindWrote = regexp.MustCompile(`^selectMappedBuffer request pos invalid, request pos: (\d+), size: 4, fileFromOffset: \d+$`)
)

func init() {
	for _, d := range damage {
		damagePatterns = append(damagePatterns, regexp.MustCompile(d.text))
	}
	for _, h := range harmless {
		harmlessPatterns = append(harmlessPatterns, regexp.MustCompile(h))
	}
}

// checkLog wants no sign of damage in what RocketMQ wrote about the directory
// but those that the situation explains, and no warning that is not known.
func (p *process) checkLog(d *directory, s situation) error {
	var errs []error
	for _, file := range []string{d.name, "other"} {
		lines, err := p.log(file)
		errs = append(errs, err)
		for _, line := range lines {
			level, rest, _ := strings.Cut(line, "\t")
			_, text, _ := strings.Cut(rest, "\t")
			if problem := judge(level, text, s, d); problem != "" {
				errs = append(errs, fmt.Errorf("RocketMQ's log: %s: %s", problem, line))
			}
		}
	}
	return errors.Join(errs...)
}

// judge says what a line means, "" for nothing bad.
func judge(level, text string, s situation, d *directory) string {
	for i, pattern := range damagePatterns {
		if !pattern.MatchString(text) {
			continue
		}
		if damage[i].afterKill && s == killedBefore || d.fresh && strings.HasPrefix(text, "The commitlog files are deleted") {
			return ""
		}
		return "damage"
	}
	if level == "INFO" {
		return ""
	}
	for _, pattern := range harmlessPatterns {
		if pattern.MatchString(text) {
			return ""
		}
	}
	switch {
	case sameNumbers(queueAhead, text): // the queues end where the log does
	case sameNumbers(behindEnd, text): // it was asked for the end of a queue, at the end of a file
	case behindWrote.MatchString(text): // it was asked for the end of the log
	default:
		return "unknown"
	}
	return ""
}

// sameNumbers reports whether the text matches and its two numbers are equal.
func sameNumbers(pattern *regexp.Regexp, text string) bool {
	m := pattern.FindStringSubmatch(text)
	return m != nil && m[1] == m[2]
}
