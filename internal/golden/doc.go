// Package golden reads the recorded stores in testdata/golden: directories that
// Apache RocketMQ 4.9.3 wrote, with every input it was given and every answer
// it gave. Tests compare PocketMQ with them.
//
// Where PocketMQ answers otherwise on purpose, Differences says so and why.
// That table is the only one in the project.
package golden
