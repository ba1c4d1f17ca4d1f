package mmap

// FSInfo says what kind of filesystem a path lies on.
type FSInfo struct {
	Name     string // its usual name, "" if unknown
	Network  bool   // other machines, or a user process, stand behind it: locks, mappings and syncs may be weaker
	Volatile bool   // its files live in memory and end with the machine
}
