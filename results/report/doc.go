// Package report renders what a campaign came to: as text, as a page, as JUnit XML for a CI, and as a summary with annotations for GitHub
// Actions. It only reads [results.Summary]; everything in it was decided before.
package report
