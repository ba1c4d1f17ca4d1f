package message

import "strings"

// TagFilter is a subscription by tags, as a set of tags codes. The zero value
// matches every message. It is immutable.
type TagFilter struct {
	codes []int32
	set   bool
}

// ParseTagFilter reads "TagA || TagB". An empty expression and "*" match every
// message; one that names no tag, such as "||", matches none. Around a tag only
// what Java's trim removes is removed: the characters up to U+0020.
//
// Source: RocketMQ common/filter/FilterAPI.java, buildSubscriptionData.
func ParseTagFilter(expression string) TagFilter {
	if expression == "" || expression == "*" {
		return TagFilter{}
	}
	f := TagFilter{set: true}
	for tag := range strings.SplitSeq(expression, "||") {
		if tag = strings.TrimFunc(tag, func(r rune) bool { return r <= ' ' }); tag != "" {
			f.codes = append(f.codes, JavaHash(tag))
		}
	}
	return f
}

// MatchesAll reports whether the filter lets everything through.
func (f TagFilter) MatchesAll() bool { return !f.set }

// Match reports whether a message with this tags code may be wanted. Different
// tags can share a code, so a consumer compares the tag itself as well.
func (f TagFilter) Match(tagsCode int64) bool {
	if !f.set {
		return true
	}
	for _, c := range f.codes {
		if c == int32(tagsCode) {
			return true
		}
	}
	return false
}
