package message_test

import (
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// Properties keep their order, and a change gives a new value.
func ExampleProperties() {
	p, err := message.NewProperties(message.PropertyTags, "TagA", "color", "red")
	if err != nil {
		fmt.Println(err)
		return
	}
	blue, err := p.With("color", "blue")
	if err != nil {
		fmt.Println(err)
		return
	}
	for name, value := range blue.All() {
		fmt.Println(name, "=", value)
	}
	color, ok := p.Get("color")
	fmt.Println(color, ok)

	_, err = p.With("color", "")
	fmt.Println(err)
	// Output:
	// TAGS = TagA
	// color = blue
	// red true
	// property value "": of color is empty: it would not be read back
}

// A filter works on codes, so it can let a tag through that only shares one.
func ExampleParseTagFilter() {
	f := message.ParseTagFilter("TagA || TagBB")
	for _, tag := range []string{"TagA", "TagB", "TagAa"} {
		fmt.Println(tag, f.Match(message.TagsCode(tag)))
	}
	fmt.Println(message.ParseTagFilter("*").MatchesAll())
	// Output:
	// TagA true
	// TagB false
	// TagAa true
	// true
}
