package mmap

import "os"

// FileIDOf returns the identity of the file that info describes: Windows tells it for open files only.
func FileIDOf(os.FileInfo) FileID { return FileID{} }
