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
	damagedBefore // by the test
)

// cause is what explains a sign of damage.
type cause uint8

const (
	nothing cause = iota
	anyKill
	killOfRocketMQ
)

// signs are the lines by which RocketMQ 4.9.3 tells that a store is not as it
// should be, whatever their level, by what may explain them. They are regular
// expressions over the text in its source.
var signs = map[cause][]string{
	anyKill: {
		`last shutdown abnormally`,
		`Build  consume queue repeatedly`, // recovery gives the queues what they have
		`Maybe try to build consume queue repeatedly`,
	},
	killOfRocketMQ: {
		// CommitLog, checkMessageAndReturnSize: it was copying a record into the file.
		`found a illegal magic code 0x(0.+|[1-9a-f].*)$`,
		`\[BUG\]read total count not equals msg total size`,
		`CRC check failed`,
		// MappedFileQueue: it was making a file; see F9.
		`0 length not matched message store config value`,
	},
	nothing: {
		// CommitLog, recovery.
		`The commitlog files are deleted, and delete the consume queue files`,
		`the store may be wrong, so shutdown abnormally, and keep abort file`,
		// ConsumeQueue, ReputMessageService.
		`\[BUG\]logic queue order maybe wrong`,
		`\[BUG\]put commit log position info to`,
		`\[BUG\]consume queue can not write`,
		`\[BUG\]dispatch message to consume queue error`,
		`\[TooSmallCqOffset\]`,
		`The reputFromOffset=.* is smaller than minPyOffset=`,
		`but commitlog have not finish to be dispatched`,
		`fill pre blank space`,
		// MappedFileQueue, MappedFile.
		`length not matched message store config value`,
		`The mappedFile queue's data is damaged`,
		`on recover, destroy a logic mapped file`,
		`Failed to (create|map) file`,
		`Error occurred when`,
		// IndexService, IndexFile.
		`build index error`,
		`Mark index file cannot build flag`,
		`putKey exception`,
		`load file .* error`,
		// ScheduleMessageService.
		`schedule CQ offset invalid`,
		`correct delay offset`,
		// Anywhere.
		`(?i)\[bug\]`,
		`(?i)exception`,
	},
}

// harmless are the warnings of a store in order.
var harmless = compile(
	`^found a illegal magic code 0x0$`, // the zeros behind the end of the log
	`^take flush disk commit request, but interrupted, this may caused by shutdown`,
	`^AllocateMappedFileService interrupted, possibly by shutdown`,
	`^create mappedFile spent time\(ms\)`,
	`^Index file \[.*\] is full, trying to create another one`,
	`^Over index file capacity`,
	`^\[NOTIFYME\]putMessages? in lock cost time`, // a slow machine
	`not in lock elapsed time`,
	`^selectMappedBuffer request pos invalid, request pos: \d+, size: 4, fileFromOffset: \d+$`, // it was asked for the end of the log
)

// Warnings that are harmless when two numbers in them are equal.
var (
	queueAhead = compile(`^maxPhyOffsetOfConsumeQueue\((\d+)\) >= processOffset\((\d+)\), truncate dirty logic files$`)[0]
	behindEnd  = compile(`^Offset not matched. Request offset: (\d+), firstOffset: \d+, lastOffset: (\d+),`)[0]
)

var damage = map[cause][]*regexp.Regexp{
	anyKill: compile(signs[anyKill]...), killOfRocketMQ: compile(signs[killOfRocketMQ]...), nothing: compile(signs[nothing]...),
}

func compile(texts ...string) []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, text := range texts {
		all = append(all, regexp.MustCompile(text))
	}
	return all
}

func matches(patterns []*regexp.Regexp, text string) bool {
	for _, p := range patterns {
		if p.MatchString(text) {
			return true
		}
	}
	return false
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
			if level == "DRIVER" {
				continue // a reply has told it
			}
			_, text, _ := strings.Cut(rest, "\t")
			if problem := d.judge(level, text, s); problem != "" {
				errs = append(errs, fmt.Errorf("RocketMQ's log: %s: %s", problem, line))
			}
		}
	}
	return errors.Join(errs...)
}

// judge says what a line means, "" for nothing bad.
func (d *directory) judge(level, text string, s situation) string {
	switch {
	case s == damagedBefore:
		return ""
	case s == killedBefore && matches(damage[anyKill], text):
		return ""
	case s == killedBefore && d.writer == rocket && matches(damage[killOfRocketMQ], text):
		return ""
	case d.fresh && strings.HasPrefix(text, "The commitlog files are deleted"): // there never were any
		return ""
	}
	for _, patterns := range damage {
		if matches(patterns, text) {
			return "damage"
		}
	}
	if level == "INFO" || matches(harmless, text) || sameNumbers(queueAhead, text) || sameNumbers(behindEnd, text) {
		return ""
	}
	return "unknown"
}

// sameNumbers reports whether the text matches and its two numbers are equal:
// the queues end where the log does; a read asked for the end of a full file.
func sameNumbers(pattern *regexp.Regexp, text string) bool {
	m := pattern.FindStringSubmatch(text)
	return m != nil && m[1] == m[2]
}
