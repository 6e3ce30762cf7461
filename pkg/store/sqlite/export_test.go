package sqlite

// WithMaxPages makes the disk full when the file has that many pages.
func WithMaxPages(n int) Option { return func(s *Store) { s.maxPages = n } }

// Waiting returns the number of transactions that wait for the writer.
func Waiting(s *Store) int { return int(s.waiting.Load()) }
