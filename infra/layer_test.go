package main

import "testing"

func TestEveryFunctionHasGitAndRoomForARepository(t *testing.T) {
	got := deployed(t)
	layer := got.only(t, "AWS::Lambda::LayerVersion")
	for _, f := range got.of("AWS::Lambda::Function") {
		if len(texts(f.at("Layers"))) != 1 || text(f.at("Layers", 0)) != text(map[string]any{"Ref": layer.ID}) {
			t.Errorf("%s has the layers %v", f.ID, f.at("Layers"))
		}
		if size := f.at("EphemeralStorage", "Size"); size != float64(diskMiB) {
			t.Errorf("%s has %v MiB of disk", f.ID, size)
		}
	}
	if others := deployedOtherwise(t).of("AWS::Lambda::LayerVersion"); len(others) != 0 {
		t.Errorf("without git there still is %v", others)
	}
}
